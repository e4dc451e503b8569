// The figures of a reading session, on screen and in print.
import { el, num, tr } from '../../../static/dom.js';
import { fixed, percent, plural, seconds, shareOf } from '../../../static/format.js';

/** @param {Answers.Share} share */
const range = ({ value, low, high, hits, n }) =>
  value == null ? '–' : `${percent(value)} (${percent(low)} to ${percent(high)}; ${hits} of ${n})`;

/** @param {string} name @param {Page.Child} value @param {string} [note] */
const row = (name, value, note = '') =>
  tr([el('th', {}, name), num([value, note && el('small', { class: 'dim' }, ` ${note}`)])]);

/** @param {Answers.SessionSummary} s @param {string} [whose] of the reader's figures */
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
    s.session.blind ? row('Changed after seeing the AI result', plural(s.changed, 'case')) : null,
    s.point && row(`${whose} sensitivity`, range(s.point.sensitivity)),
    s.point && row(`${whose} specificity`, range(s.point.specificity)),
    s.detector && row('Detector’s sensitivity', range(s.detector.sensitivity), 'same cases'),
    s.detector && row('Detector’s specificity', range(s.detector.specificity), 'same cases'),
    ...s.agreement
      .filter((a) => a.n > 0)
      .map((a) =>
        row(
          `Agreement with ${a.with}`,
          shareOf(a.agreement, a.n),
          a.kappa == null
            ? `${a.n} cases`
            : `kappa ${fixed(a.kappa, 2)} (${fixed(a.low, 2)} to ${fixed(a.high, 2)}), ${a.n} cases`,
        ),
      ),
  ];
  return el('table', { class: 'rv-summary' }, rows);
}

/** Describes the reference of the figures. @param {Answers.SessionSummary} s */
export const against = (s) =>
  s.point
    ? 'Against the imported labels, by last decisions; “unsure” counts as neither. 95 % Wilson intervals.'
    : 'No labels to compare with.';
