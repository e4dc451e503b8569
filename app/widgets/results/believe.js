// How far a run is to be believed: its promise, what planted lesions say it misses, changed images, calibrated scores.
import { el } from '../../static/dom.js';
import { fixed, percent, plural } from '../../static/format.js';

/** @typedef {import('../../static/answers').Believed} Believed */

const SIDE = 160;

/** A dot a bin: how often cases of a chance were decided abnormal. @param {NonNullable<Believed['calibration']>} calibration */
function reliability({ points }) {
  const at = (/** @type {number} */ v) => 20 + v * SIDE;
  const up = (/** @type {number} */ v) => SIDE + 10 - v * SIDE;
  const dots = points.map(({ chance, value, low, high, n }) => [
    el('line', { x1: at(chance), x2: at(chance), y1: up(low ?? 0), y2: up(high ?? 1), stroke: 'var(--dim)' }),
    el(
      'circle',
      { cx: at(chance), cy: up(value ?? 0), r: 3.5, fill: 'var(--accent)' },
      el('title', {}, `${percent(chance)} expected, ${percent(value)} of ${n} decided abnormal`),
    ),
  ]);
  const name = 'Reliability: expected chance by the share decided abnormal';
  return el(
    'svg',
    { width: SIDE + 40, height: SIDE + 30, role: 'img', 'aria-label': name },
    el('rect', { x: 20, y: 10, width: SIDE, height: SIDE, fill: 'none', stroke: 'var(--line)' }),
    el('line', { x1: at(0), y1: up(0), x2: at(1), y2: up(1), stroke: 'var(--line)', 'stroke-dasharray': '3 3' }),
    dots.flat(),
  );
}

/** @param {Believed} found @param {string} run */
export function believed({ promise, planted, changed, plain, calibration }, run) {
  const { flagged } = promise;
  const seen =
    promise.threshold !== null &&
    flagged.n > 0 &&
    ` Of the test's normals ${percent(flagged.value)} are flagged (${percent(flagged.low)} to ${percent(flagged.high)}).`;
  const rows = planted.map(({ size, contrast, found }) =>
    el(
      'tr',
      {},
      el('td', {}, percent(size, 0)),
      el('td', {}, percent(contrast, 0)),
      el('td', {}, `${percent(found.value, 0)} (${percent(found.low, 0)} to ${percent(found.high, 0)})`),
    ),
  );
  const heads = ['size, of the side', 'opacity', 'flagged'].map((text) => el('th', {}, text));
  const told = plain.map(({ day, measure, usual, new: now }) =>
    el('li', {}, `${day}: ${measure} ${fixed(now)} instead of ${fixed(usual)}`),
  );
  const [group] = changed;
  const alarm = group?.since
    ? el('p', { class: 'bad' }, `Images have changed since ${group.since}.`)
    : el(
        'p',
        { class: 'dim' },
        group ? `${plural(group.cases, 'new normal case')}: like the held-out ones.` : 'No images came in later.',
      );
  return [
    promise.paused ? el('p', { class: 'bad' }, promise.paused) : el('p', {}, promise.guarantee, seen),
    alarm,
    told.length > 0 && el('ul', {}, told),
    planted.length
      ? el('table', { class: 'num' }, el('tr', {}, heads), rows)
      : el('p', { class: 'dim' }, `What is missed at that threshold: pmsacl-studio believe ${run} plants lesions.`),
    planted.length > 0 &&
      el('p', { class: 'dim' }, 'Lesions of MedMix in held-out normals; real ones may be easier or harder to see.'),
    calibration
      ? [
          el(
            'p',
            { class: 'dim' },
            `${calibration.method} of the score on ${calibration.cases} decided cases, ${calibration.abnormal} abnormal, ` +
              `patients apart; Brier score ${fixed(calibration.brier)}.`,
          ),
          reliability(calibration),
        ]
      : el('p', { class: 'dim' }, 'The score is calibrated once 30 cases of each kind are decided.'),
  ];
}
