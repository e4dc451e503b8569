// One table of the report: rows of methods, our figures beside the paper's, and a button for each seed that is made.
import { action, el, num, table, tr } from '../../static/dom.js';
import { fixed, seconds } from '../../static/format.js';

/** @typedef {import('../../static/answers').ReportTable} Table */
/** @typedef {import('../../static/answers').ReportRow} Row */
/** @typedef {import('../../static/answers').ReportSeed} Seed */

/** The highest mean of a column, to three decimals. @param {Table} table @param {string} metric */
export const best = ({ rows }, metric) =>
  fixed(Math.max(...rows.map((row) => row.values[metric]?.mean ?? Number.NEGATIVE_INFINITY)));

/** @param {Table} shown @param {(seed: Seed) => void} open */
export function board(shown, open) {
  const top = Object.fromEntries(shown.heads.map(({ metric }) => [metric, best(shown, metric)]));

  /** @param {Row} row @param {string} metric */
  function value(row, metric) {
    const ours = row.values[metric];
    const text = ours && fixed(ours.mean);
    const spread = ours?.deviation == null ? '' : ` ± ${fixed(ours.deviation)}`;
    const paper = row.paper[metric];
    return el(
      'td',
      { class: text === top[metric] ? 'num rp-best' : 'num' },
      `${text || '–'}${spread} `,
      paper != null && el('small', { title: 'the paper' }, `${fixed(paper)}${row.paper_starred ? '*' : ''}`),
    );
  }

  /** @param {Row} row */
  const dots = (row) =>
    row.seeds.map((one) =>
      one.fit
        ? action(String(one.seed), () => open(one), {
            title: `Seed ${one.seed}: open`,
            'aria-label': `${row.label}, seed ${one.seed}`,
          })
        : el('i', { title: `Seed ${one.seed}: not made yet` }),
    );

  /** @param {Row} row */
  const line = (row) =>
    tr([
      [
        `${row.label}${row.starred ? '*' : ''}`,
        row.collapsed > 0 && el('small', { class: 'warn' }, `${row.collapsed} collapsed`),
      ],
      ...(row.failed
        ? [el('td', { class: 'rp-failed', colspan: shown.heads.length + 1 }, `Not made: ${row.failed}`)]
        : [...shown.heads.map(({ metric }) => value(row, metric)), num(seconds(row.seconds))]),
      el('span', { class: 'rp-seeds' }, dots(row)),
    ]);

  const something = (/** @type {Row} */ row) => Boolean(row.failed) || row.seeds.some((one) => one.fit);
  const rows = shown.rows.filter(something);
  const waiting = shown.rows.filter((row) => !something(row));
  const names = waiting.map((row) => row.label).join('; ');
  const note = waiting.length > 0 && el('p', { class: 'dim rp-waiting' }, `Not made yet: ${names}.`);
  if (!rows.length) return el('section', { class: 'panel rp-board' }, el('h2', {}, shown.title), note);
  return el(
    'section',
    { class: 'panel rp-board' },
    el('h2', {}, shown.title),
    table(['Method', ...shown.heads.map(({ title }) => title), 'Time', 'Seeds'], rows.map(line)),
    note,
  );
}
