// Tables of the Results tab: figures at the threshold, comparisons of detectors and of readers.
import { action, el, num, table, tr } from '../../static/dom.js';
import { fixed, percent, plural, shareOf } from '../../static/format.js';
import { dom } from '../../static/view.js';

/** @typedef {Pick<Answers.FleissKappa, 'kappa' | 'low' | 'high'>} Kappa */

/** @param {Answers.Share} s */
const share = (s) => percent(s.value);
/** @param {Answers.Share} s */
const interval = ({ value, low, high, hits, n }) =>
  value === null || low === null || high === null
    ? ''
    : `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, ${hits} of ${n}`;
/** @param {Kappa} k */
const kappa = ({ kappa: value, low, high }) =>
  value === null ? '–' : `${fixed(value, 2)}${low === null ? '' : ` (${fixed(low, 2)} to ${fixed(high, 2)})`}`;

/** @param {string} words */
const dim = (words) => el('td', { class: 'num dim' }, words);

/** A button that shows a run. @param {string} run @param {string} title @param {string | null} now the run whose
 * results are shown @param {(run: string) => void} show */
const choice = (run, title, now, show) =>
  action(title, () => show(run), { 'aria-pressed': String(run === now), title: 'Show the results of this run' });

/** @param {string} title @param {Answers.OperatingPoint} point @param {Record<string, Answers.Share>} [more] */
export function figures(title, { sensitivity, specificity, ppv, npv }, more = {}) {
  const shares = Object.entries({ Sensitivity: sensitivity, Specificity: specificity, PPV: ppv, NPV: npv, ...more });
  const rows = shares.map(([name, s]) => tr([el('th', { scope: 'row' }, name), num(share(s)), dim(interval(s))]));
  return dom`<div><h3>${title}</h3>${table([], rows)}</div>`;
}

/** @param {Answers.Agreement} a @param {(id: number, name: string) => HTMLElement} link to a case */
export function agreement({ pairs, fleiss, differ }, link) {
  if (!pairs.length) return el('p', { class: 'dim' }, 'Appears when two readers have read the same cases.');
  const title = 'Normal, abnormal, unsure; rows: first reader, columns: second reader';
  const rows = pairs.map((p) => {
    const counts = p.confusion.map((r) => r.join(' ')).join(' / ');
    const figures = [kappa(p), shareOf(p.agreement, p.n), String(p.n)].map(num);
    return tr([p.readers.join(' and '), ...figures, el('td', { class: 'num dim', title }, counts)]);
  });
  const cases = differ.slice(0, 30).map(({ case: id, name, decisions, adjudication: settled }) => {
    const said = Object.entries(decisions).map(([reader, decision]) => `${reader}: ${decision}`);
    return tr([
      link(id, name),
      said.join(', '),
      settled ? `adjudicated by ${settled.reader}: ${settled.decision}` : 'not adjudicated',
    ]);
  });
  const all = fleiss && `All ${fleiss.readers} readers: Fleiss’ κ ${kappa(fleiss)} on ${plural(fleiss.n, 'case')}`;
  return dom`<div>
    ${table(['Readers', 'Cohen’s κ (95 %)', 'Agreement (95 %)', 'Cases', 'Confusion N A U'], rows)}
    ${all && el('p', { class: 'num' }, all)}
    <details><summary>${plural(differ.length, 'case')} with different decisions</summary>${table([], cases)}</details>
  </div>`;
}

/** Second decisions of a blind study against the first. @param {Answers.ResultsOfRun['minds']} minds */
export function changedMinds(minds) {
  const rows = Object.entries(minds).map(([reader, v]) => {
    const counts = [v.both, v.to_abnormal, v.to_normal, v.to_unsure, v.for_better, v.for_worse];
    return tr([reader, ...counts.map((n) => num(String(n)))]);
  });
  if (!rows.length)
    return el('p', { class: 'dim' }, 'Appears in a blind study when readers decide again with the score in view.');
  const heads = ['Reader', 'Read twice', 'To abnormal', 'To normal', 'To unsure', 'Corrected', 'Made worse'];
  return table(heads, rows);
}

/** @param {Answers.ComparedRow[]} rows @param {string | null} now the run whose results are
 * shown @param {(run: string) => void} show */
export function detectors(rows, now, show) {
  /** @param {Answers.ComparedRow} r @param {'auroc' | 'pixel_auroc' | 'dice' | 'pro' | 'pro_all'} m */
  const figure = (r, m) => {
    const ci = r[`${m}_ci`];
    const title = ci ? `95 % interval ${ci.map((v) => fixed(v)).join(' to ')}` : null;
    return el('td', { class: `num${r.best.includes(m) ? ' rs-best' : ''}`, title }, fixed(r[m]));
  };
  const name = (/** @type {Answers.ComparedRow} */ { run, title }) => (run ? choice(run, title, now, show) : title);
  const others = /** @type {const} */ (['pixel_auroc', 'dice', 'pro', 'pro_all']);
  const lines = rows.map((r) => {
    const run = el('td', { class: 'dim' }, r.encoder ? `${r.name} on ${r.encoder}` : r.name);
    const ci = dim(r.auroc_ci ? r.auroc_ci.map((v) => fixed(v, 2)).join(' to ') : '');
    const counts = [r.cases, r.localised].map((n) => dim(n == null ? '' : String(n)));
    const pixels = others.map((m) => figure(r, m));
    const cells = [name(r), run, counts[0], figure(r, 'auroc'), ci, counts[1], ...pixels];
    return tr(cells, { 'data-run': r.run || 'baseline' });
  });
  const heads = ['Detector', 'Run', 'Cases', 'Image AUROC', '95 %', 'With a mask', 'Pixel AUROC', 'Dice', 'PRO'];
  const sets = new Set(rows.filter((r) => r.cases).map((r) => r.set));
  const apart = 'These runs were evaluated on different cases, labels or masks, so none is marked as best.';
  const compared = table([...heads, 'PRO, all images'], lines);
  return el('div', { class: 'rs-compared' }, sets.size > 1 && el('p', { class: 'warn' }, apart), compared);
}

// One verdict in plain words on each detector, above all figures.
const SIGN = { good: '✓', warn: '!', bad: '✕', none: '–' };
const MEANING = { good: 'reliable', warn: 'use with care', bad: 'unreliable', none: 'unknown' };

/** @param {Answers.Verdict[]} rows @param {string | null} now the run whose results are shown
 * @param {(run: string) => void} show */
export function verdicts(rows, now, show) {
  const line = (/** @type {Answers.Verdict} */ { run, title, level, words, advice }) => dom`
    <li class="rs-verdict ${level}">
      <span class="rs-sign" role="img" aria-label=${MEANING[level]}>${SIGN[level]}</span>
      ${choice(run, title, now, show)}
      <p class="num">${words}${advice && el('span', { class: 'rs-advice' }, ` ${advice}`)}</p>
    </li>`;
  return dom`<section class="panel rs-wide"><h2>Verdict</h2><ul class="rs-verdicts">${rows.map(line)}</ul></section>`;
}
