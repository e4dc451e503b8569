// Tables of the Results tab: figures at the threshold, detectors side by side, readers against each other.
import { el } from '../../static/dom.js';
import { fixed, percent, plural } from '../../static/format.js';

/** @typedef {import('../../static/answers').Share} Share */
/** @typedef {Pick<import('../../static/answers').FleissKappa, 'kappa' | 'low' | 'high'>} Kappa */
/** @typedef {import('../../static/types').Child} Child */
/** @typedef {{cell: Child, class?: string, title?: string | null}} Cell */

/** @param {Share} s */
const share = (s) => percent(s.value);
/** @param {Share} s */
const interval = ({ value, low, high, hits, n }) =>
  value === null || low === null || high === null
    ? ''
    : `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, ${hits} of ${n}`;
/** @param {Kappa} k */
const kappa = ({ kappa: value, low, high }) =>
  value === null ? '–' : `${fixed(value, 2)}${low === null ? '' : ` (${fixed(low, 2)} to ${fixed(high, 2)})`}`;
/** @param {Child} cell @returns {Cell} */
const num = (cell) => ({ cell, class: 'num' });

/** @param {string[]} heads none: no line of heads @param {Cell[][]} rows @param {import('../../static/types').Attributes[]} [attributes] */
export function table(heads, rows, attributes = []) {
  const head = el(
    'tr',
    {},
    heads.map((text) => el('th', {}, text)),
  );
  const line = (/** @type {Cell[]} */ row, /** @type {number} */ i) =>
    el(
      'tr',
      attributes[i] || {},
      row.map(({ cell, ...look }) => el('td', look, cell)),
    );
  return el('table', {}, heads.length > 0 && head, rows.map(line));
}

/** @param {string} title @param {import('../../static/answers').OperatingPoint} point */
export function figures(title, { sensitivity, specificity, ppv, npv }) {
  const rows = Object.entries({ Sensitivity: sensitivity, Specificity: specificity, PPV: ppv, NPV: npv });
  return el(
    'div',
    {},
    el('h3', {}, title),
    table(
      [],
      rows.map(([name, s]) => [{ cell: name }, num(share(s)), { cell: interval(s), class: 'num dim' }]),
    ),
  );
}

/** @param {import('../../static/answers').Agreement} a @param {(id: number, name: string) => HTMLElement} link to a case */
export function agreement({ pairs, fleiss, differ }, link) {
  if (!pairs.length) return el('p', { class: 'dim' }, 'Two readers who have read the same cases are compared here.');
  const rows = pairs.map((p) => [
    { cell: p.readers.join(' and ') },
    num(kappa(p)),
    num(percent(p.agreement, 0)),
    num(String(p.n)),
    {
      cell: p.confusion.map((r) => r.join(' ')).join(' / '),
      class: 'num dim',
      title: 'rows: the first reader; columns: the second',
    },
  ]);
  const cases = differ.slice(0, 30).map((d) => [
    { cell: link(d.case, d.name) },
    {
      cell: Object.entries(d.decisions)
        .map(([reader, decision]) => `${reader}: ${decision}`)
        .join(', '),
    },
    { cell: d.adjudication ? `${d.adjudication.reader} settled: ${d.adjudication.decision}` : 'open' },
  ]);
  const all = fleiss && `All ${fleiss.readers} readers: Fleiss’ κ ${kappa(fleiss)} on ${plural(fleiss.n, 'case')}`;
  return el(
    'div',
    {},
    table(['Readers', 'Cohen’s κ (95 %)', 'same', 'cases', 'confusion N A U'], rows),
    all && el('p', { class: 'num' }, all),
    el('details', {}, el('summary', {}, `${differ.length} cases on which readers differ`), table([], cases)),
  );
}

/** Second decisions of a blind study against the first. @param {import('../../static/answers').ResultsOfRun['minds']} minds */
export function changedMinds(minds) {
  const rows = Object.entries(minds).map(([reader, v]) => [
    { cell: reader },
    ...[v.both, v.to_abnormal, v.to_normal, v.to_unsure, v.for_better, v.for_worse].map((n) => num(String(n))),
  ]);
  if (!rows.length)
    return el('p', { class: 'dim' }, 'Second decisions of a blind study are compared with the first ones here.');
  const heads = ['Reader', 'read twice', 'to abnormal', 'to normal', 'to unsure', 'for the better', 'for the worse'];
  return table(heads, rows);
}

/**
 * @param {import('../../static/answers').ComparedRow[]} rows
 * @param {string | null} now the run whose results are shown
 * @param {(run: string) => void} show
 */
export function detectors(rows, now, show) {
  const figure = (
    /** @type {import('../../static/answers').ComparedRow} */ r,
    /** @type {'auroc' | 'pixel_auroc' | 'dice' | 'pro' | 'pro_all'} */ m,
  ) => {
    const ci = r[`${m}_ci`];
    return {
      cell: fixed(r[m]),
      class: `num${r.best.includes(m) ? ' rs-best' : ''}`,
      title: ci ? `95 % interval ${ci.map((v) => fixed(v)).join(' to ')}` : null,
    };
  };
  const name = (/** @type {import('../../static/answers').ComparedRow} */ { run, title }) => {
    if (!run) return title;
    const pressed = String(run === now);
    return el('button', { 'aria-pressed': pressed, title: 'Show its results', onclick: () => show(run) }, title);
  };
  const lines = rows.map((r) => [
    { cell: name(r) },
    { cell: r.encoder ? `${r.name} on ${r.encoder}` : r.name, class: 'dim' },
    figure(r, 'auroc'),
    { cell: r.auroc_ci ? r.auroc_ci.map((v) => fixed(v, 2)).join(' to ') : '', class: 'num dim' },
    figure(r, 'pixel_auroc'),
    figure(r, 'dice'),
    figure(r, 'pro'),
    figure(r, 'pro_all'),
  ]);
  const heads = ['Detector', 'Run', 'image AUROC', '95 %', 'pixel AUROC', 'Dice', 'PRO', 'PRO, all images'];
  const attributes = rows.map((r) => ({ 'data-run': r.run || 'baseline' }));
  return el('div', { class: 'rs-compared' }, table(heads, lines, attributes));
}
