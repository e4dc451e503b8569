// What a reading session came to: time for each case, agreement, operating point.
import { get } from '../../../static/api.js';
import { stage } from '../../../static/dialogs.js';
import { el } from '../../../static/dom.js';
import { fixed, percent, plural, seconds } from '../../../static/format.js';

/** @typedef {import('../../../static/answers').Share} Share */
/** @typedef {import('../../../static/answers').SessionSummary} Summary */

/** @param {Share} share */
const range = ({ value, low, high, hits, n }) =>
  value == null ? '–' : `${percent(value)} (${percent(low)} to ${percent(high)}; ${hits} of ${n})`;

/** @param {string} name @param {import('../../../static/types').Child} value @param {string} [note] */
const row = (name, value, note = '') =>
  el(
    'tr',
    {},
    el('th', {}, name),
    el('td', { class: 'num' }, value, note && el('small', { class: 'dim' }, ` ${note}`)),
  );

/** @param {Summary} s */
function figures(s) {
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
    s.point && row('Your sensitivity', range(s.point.sensitivity)),
    s.point && row('Your specificity', range(s.point.specificity)),
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

/** @param {import('./review_view.js').ReviewView} review @param {number} session */
export async function showSummary(review, session) {
  const found = await get(`/api/reading/${session}/summary`);
  if (!found.ok) return review.say(found.error, 'bad');
  const labels =
    'Against the labels of the import, by last decisions; “unsure” counts for neither. 95 % Wilson intervals.';
  const dialog = el('dialog', { class: 'ask widget rv-over', onclose: () => dialog.remove() });
  dialog.append(
    el('h2', {}, 'Reading session'),
    figures(found),
    found.point ? el('p', { class: 'dim' }, labels) : el('p', { class: 'dim' }, 'No labels to compare with.'),
    el('menu', {}, el('button', { type: 'button', class: 'main', onclick: () => dialog.close() }, 'Close')),
  );
  stage().append(dialog);
  dialog.showModal();
}
