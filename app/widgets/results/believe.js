// A run's reliability: what its limit guarantees, what it misses by planted lesions, changed images, calibrated scores.
import { el, num, table, tr } from '../../static/dom.js';
import { fixed, percent } from '../../static/format.js';

/** How often cases of a predicted probability were called abnormal. @param {NonNullable<Answers.Believed['calibration']>} calibration */
const reliability = ({ points }) =>
  table(
    ['Predicted chance', 'Called abnormal (95 %)', 'Cases'],
    points.map(({ chance, value, low, high, n }) =>
      tr([percent(chance, 0), `${percent(value, 0)} (${percent(low, 0)} to ${percent(high, 0)})`, String(n)].map(num)),
    ),
  );

/** Describes the guarantee of the threshold that limits false alarms. @param {Answers.Promised | null} p */
export function guaranteed(p) {
  if (!p) return null;
  const seen =
    p.normals > 0 &&
    `It flags ${p.flagged} of ${p.normals} normal test images, ${percent(p.share.value)} ` +
      `(95 % interval ${percent(p.share.low)} to ${percent(p.share.high)}).`;
  return [
    el('summary', {}, 'What the 5 % limit guarantees'),
    el('p', { class: p.paused ? 'bad' : 'dim' }, p.guarantee),
    p.threshold !== null && el('p', { class: 'dim num' }, `Its threshold is ${fixed(p.threshold)}. `, seen),
  ];
}

/** Shows how the images differ, with typical pictures of both sides. @param {Answers.Believed['plain'][number]} group */
function differing({ of, rows, pictures }) {
  const row = (/** @type {string} */ words, /** @type {number[]} */ cases) =>
    el(
      'figure',
      {},
      el('figcaption', { class: 'dim' }, words),
      cases.map((id) => el('img', { src: `/api/case/${id}/thumb.png?size=200`, alt: '', loading: 'lazy' })),
    );
  const differences = rows.map(({ measure, usual, new: now }) => `${measure} ${fixed(now)} instead of ${fixed(usual)}`);
  return [
    el('p', { class: 'num' }, `Images of ${of}: ${differences.join(', ')}.`),
    pictures && el('div', { class: 'rs-sides' }, row('held out', pictures.usual), row('new', pictures.new)),
  ];
}

/** Shows a badge above all figures if images have changed. @param {Answers.Believed} found */
export const badge = ({ changed }) =>
  changed?.since && el('p', { class: 'panel bad' }, `⚠ ${changed.words}. The guarantee does not hold for them.`);

/** @param {Answers.Believed} found @param {HTMLElement | false} plant a button that measures missed lesions */
export function believed({ promise, planted, changed, plain, calibration, enough }, plant) {
  const rows = planted.map(({ size, contrast, found: { value, low, high } }) => {
    const [of, least, most] = [value, low, high].map((v) => percent(v, 0));
    return tr([percent(size, 0), percent(contrast, 0), `${of} (${least} to ${most})`].map(num));
  });
  const caveat = promise?.caveat || changed?.caveat;
  return el(
    'div',
    { class: 'rs-two rs-believed' },
    el(
      'div',
      {},
      el('h3', {}, 'New images'),
      changed
        ? el('p', { class: changed.since && 'bad' }, `${changed.words}.`)
        : el('p', { class: 'dim' }, 'Too few new normal images to compare.'),
      plain.map(differing),
      caveat && el('p', { class: 'dim' }, caveat),
    ),
    el(
      'div',
      {},
      el('h3', {}, 'What is missed'),
      planted.length
        ? [
            table(['Size, share of the side', 'Opacity', 'Flagged (95 %)'], rows),
            el('p', { class: 'dim' }, 'MedMix lesions in held-out normals; real ones may be easier or harder to find.'),
          ]
        : el(
            'p',
            { class: 'dim' },
            'Not measured yet: synthetic lesions in held-out normals show which sizes are missed.',
          ),
      plant,
      el('h3', {}, 'What a score means'),
      calibration
        ? [
            el(
              'p',
              { class: 'dim' },
              `${calibration.method} of the score on ${calibration.cases} decided cases, ${calibration.abnormal} abnormal; ` +
                `${calibration.apart}. Brier score ${fixed(calibration.brier)}.`,
            ),
            reliability(calibration),
          ]
        : el('p', { class: 'dim' }, `The score is calibrated once ${enough} cases of each kind are decided.`),
    ),
  );
}
