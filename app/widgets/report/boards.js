// One table of the report: rows of methods, our figures next to the paper's, a button for each seed; missing rows are
// grey, with the time that they take.
import { action, el, num, table } from '../../static/dom.js';
import { fixed, seconds } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { dom } from '../../static/view.js';

/** Returns the highest mean of a column, to three decimals. @param {Answers.ReportTable} table @param {string} metric */
export const best = ({ rows }, metric) =>
  fixed(Math.max(...rows.map((row) => row.values[metric]?.mean ?? Number.NEGATIVE_INFINITY)));

/** @param {Answers.ReportTable} shown @param {(seed: Answers.ReportSeed) => void} open @param {Record<string, number>} costs seconds of rows that miss a cell */
export function board(shown, open, costs) {
  const top = Object.fromEntries(shown.heads.map(({ metric }) => [metric, best(shown, metric)]));

  /** @param {Answers.ReportRow} row @param {string} metric */
  function value(row, metric) {
    const ours = row.values[metric];
    const text = ours && fixed(ours.mean);
    const spread = ours?.deviation == null ? '' : ` ± ${fixed(ours.deviation)}`;
    const paper = row.paper[metric];
    const published = () =>
      dom`<small title="Published in the paper">${fixed(paper)}${row.paper_starred && '*'}</small>`;
    const look = text === top[metric] ? 'num rp-best' : 'num';
    return dom`<td class=${look}>${text || '–'}${spread} ${paper != null && published()}</td>`;
  }

  /** @param {Answers.ReportRow} row */
  const dots = (row) =>
    row.seeds.map((one) => {
      if (!one.fit) return el('i', { title: `Seed ${one.seed}: not run yet` });
      const look = { title: `Open seed ${one.seed}`, 'aria-label': `${row.label}, seed ${one.seed}` };
      return action(String(one.seed), () => open(one), look);
    });

  /** @param {Answers.ReportRow} row */
  const time = (row) => (row.seconds == null && costs[row.label] ? about(costs[row.label]) : seconds(row.seconds));
  const wide = shown.heads.length + 1;
  /** @param {Answers.ReportRow} row */
  const line = (row) => dom`<tr class=${row.seeds.some((one) => one.fit) || row.failed ? null : 'rp-none'}>
    <td>
      ${row.label}${row.starred && '*'}
      ${row.collapsed > 0 && el('small', { class: 'warn' }, `${row.collapsed} collapsed`)}
    </td>
    ${
      row.failed
        ? el('td', { class: 'rp-failed', colspan: wide }, `Failed: ${row.failed}`)
        : [shown.heads.map(({ metric }) => value(row, metric)), num(time(row))]
    }
    <td><span class="rp-seeds">${dots(row)}</span></td>
  </tr>`;

  const heads = ['Method', ...shown.heads.map(({ title }) => title), 'Time', 'Seeds'];
  return dom`<section class="panel rp-board"><h2>${shown.title}</h2>${table(heads, shown.rows.map(line))}</section>`;
}
