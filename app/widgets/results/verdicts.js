// One plain verdict on each detector, above all figures.
import { el } from '../../static/dom.js';

const SIGN = { good: '✓', warn: '!', bad: '✕', none: '–' };
const MEANING = { good: 'holds', warn: 'with care', bad: 'does not hold', none: 'unknown' };

/**
 * @param {import('../../static/answers').Verdict[]} rows
 * @param {string | null} now the run whose results are shown
 * @param {(run: string) => void} show
 */
export function verdicts(rows, now, show) {
  const line = (/** @type {import('../../static/answers').Verdict} */ { run, title, level, words, advice }) =>
    el(
      'li',
      { class: `rs-verdict ${level}` },
      el('span', { class: 'rs-sign', role: 'img', 'aria-label': MEANING[level] }, SIGN[level]),
      el('button', { 'aria-pressed': String(run === now), title: 'Show its results', onclick: () => show(run) }, title),
      el('p', { class: 'num' }, words, advice && el('span', { class: 'rs-advice' }, ` ${advice}`)),
    );
  return el(
    'section',
    { class: 'panel rs-wide' },
    el('h2', {}, 'Verdict'),
    el('ul', { class: 'rs-verdicts' }, rows.map(line)),
  );
}
