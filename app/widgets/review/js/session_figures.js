// The figures of a reading session, on screen and in print.
import { el, num, table, tr } from '../../../static/dom.js';
import { fixed, percent, plural, seconds } from '../../../static/format.js';

/** @typedef {import('../../../static/answers').Share} Share */
/** @typedef {import('../../../static/answers').SessionSummary} Summary */

/** @param {Share} share */
const range = ({ value, low, high, hits, n }) =>
  value == null ? '–' : `${percent(value)} (${percent(low)} to ${percent(high)}; ${hits} of ${n})`;

/** @param {string} name @param {import('../../../static/types').Child} value @param {string} [note] */
const row = (name, value, note = '') =>
  tr([el('th', {}, name), num([value, note && el('small', { class: 'dim' }, ` ${note}`)])]);

/** @param {Summary} s @param {string} [whose] of the reader's figures */
export function figures(s, whose = 'Your') {
  const { normal, abnormal, unsure } = s.decisions;
  const rows = [
    row('Read', `${s.read} of ${plural(s.cases, 'case')}`, `${normal} normal, ${abnormal} abnormal, ${unsure} unsure`),
    s.seconds &&
      row(
        'Time a case',
        seconds(s.seconds.median),
        `median; half take ${seconds(s.seconds.low)} to ${seconds(s.seconds.high)}`,
      ),
    s.seconds && row('Time in all', seconds(s.seconds.total)),
    s.session.blind ? row('Changed after the reading was shown', plural(s.changed, 'case')) : null,
    s.point && row(`${whose} sensitivity`, range(s.point.sensitivity)),
    s.point && row(`${whose} specificity`, range(s.point.specificity)),
    s.detector && row('Detector’s sensitivity', range(s.detector.sensitivity), 'same cases'),
    s.detector && row('Detector’s specificity', range(s.detector.specificity), 'same cases'),
    ...s.agreement
      .filter((a) => a.n > 0)
      .map((a) =>
        row(
          `Agreement with ${a.with}`,
          a.agreement == null ? '–' : percent(a.agreement),
          a.kappa == null
            ? `${a.n} cases`
            : `kappa ${fixed(a.kappa, 2)} (${fixed(a.low, 2)} to ${fixed(a.high, 2)}), ${a.n} cases`,
        ),
      ),
  ];
  return el('table', { class: 'rv-summary' }, rows);
}

/** What was planted among the cases, and what of it was found. @param {Summary} s @param {string} whose @param {boolean} [open] */
export function planted({ planted: { lesions, table: sizes } }, whose, open = false) {
  if (!lesions.length) return null;
  const look = { class: 'rv-report-cases' };
  const of = (/** @type {Share} */ { hits, n }) => `${hits} of ${n}`;
  const part = (/** @type {number} */ share) => `${fixed(100 * share, 0)}\u00a0%`;
  return el(
    'section',
    { class: 'rv-planted' },
    el('h3', {}, `${plural(lesions.length, 'lesion')} planted, which count nowhere else`),
    table(
      ['Size', 'Contrast', `${whose}, at first`, `${whose}, in the end`, 'Detector'],
      sizes.map((t) => tr([part(t.size), part(t.contrast), of(t.first), of(t.last), of(t.machine)])),
      look,
    ),
    el(
      'details',
      { open },
      el('summary', {}, 'Each of them'),
      table(
        ['Case', 'Size', 'Contrast', 'Pixels from left, top; width, height', 'Said', 'Detector'],
        lesions.map((l) =>
          tr([
            l.name,
            part(l.size),
            part(l.contrast),
            `${l.box[0]}, ${l.box[1]}; ${l.box[2]}, ${l.box[3]}`,
            l.decision === l.first ? l.decision || 'not read' : `${l.first}, then ${l.decision}`,
            l.flagged ? 'flagged' : 'not flagged',
          ]),
        ),
        look,
      ),
    ),
  );
}

/** What the figures are against. @param {Summary} s */
export const against = (s) =>
  s.point
    ? 'Against the labels of the import, by last decisions; “unsure” counts for neither. 95 % Wilson intervals.'
    : 'No labels to compare with.';
