// A run's reliability: what its limit guarantees, what it misses by planted lesions, changed images, calibrated scores.
import { fixed, percent } from '../../static/format.js';
import { html } from '../../static/view.js';
import { num, table } from './tables.js';

/** How often cases of a predicted probability were called abnormal. @param {NonNullable<Answers.Believed['calibration']>} calibration */
function reliability({ points }) {
  const share = (/** @type {number | null} */ v) => percent(v, 0);
  const row = (/** @type {(typeof points)[number]} */ { chance, value, low, high, n }) =>
    html`<tr>${num(share(chance))}${num(`${share(value)} (${share(low)} to ${share(high)})`)}${num(n)}</tr>`;
  return table(['Predicted chance', 'Called abnormal (95 %)', 'Cases'], points.map(row));
}

/** Describes the guarantee of the threshold that limits false alarms. @param {Answers.Promised | null} p */
export function guaranteed(p) {
  if (!p) return null;
  const { value, low, high } = p.share;
  const seen =
    p.normals > 0 &&
    `It flags ${p.flagged} of ${p.normals} normal test images, ${percent(value)} ` +
      `(95 % interval ${percent(low)} to ${percent(high)}).`;
  return html`<details>
    <summary>What the 5 % limit guarantees</summary>
    <p class=${p.paused ? 'bad' : 'dim'}>${p.guarantee}</p>
    ${p.threshold !== null && html`<p class="dim num">Its threshold is ${fixed(p.threshold)}. ${seen}</p>`}
  </details>`;
}

/** Shows how the images differ, with typical pictures of both sides. @param {Answers.Believed['plain'][number]} group */
function differing({ of, rows, pictures }) {
  const image = (/** @type {number} */ id) =>
    html`<img src="./api/case/${id}/thumb.png?size=200" alt="" loading="lazy" />`;
  const row = (/** @type {string} */ words, /** @type {number[]} */ cases) =>
    html`<figure><figcaption class="dim">${words}</figcaption>${cases.map(image)}</figure>`;
  const differences = rows.map(({ measure, usual, new: now }) => `${measure} ${fixed(now)} instead of ${fixed(usual)}`);
  return html`<p class="num">Images of ${of}: ${differences.join(', ')}.</p>
    ${pictures && html`<div class="rs-sides">${row('held out', pictures.usual)}${row('new', pictures.new)}</div>`}`;
}

/** @param {Answers.Believed} found @param {any} plant a button that measures missed lesions */
export function believed({ promise, planted, changed, plain, calibration, enough }, plant) {
  const rows = planted.map(({ size, contrast, found: { value, low, high } }) => {
    const [of, least, most] = [value, low, high].map((v) => percent(v, 0));
    return html`<tr>${[percent(size, 0), percent(contrast, 0), `${of} (${least} to ${most})`].map((words) => num(words))}</tr>`;
  });
  const caveat = promise?.caveat || changed?.caveat;
  const dim = (/** @type {string} */ text) => html`<p class="dim">${text}</p>`;
  return html`<div class="rs-two rs-believed">
    <div>
      <h3>New images</h3>
      ${
        changed
          ? html`<p class=${changed.since ? 'bad' : ''}>${changed.words}.</p>`
          : dim('Too few new normal images to compare.')
      }
      ${plain.map(differing)}
      ${caveat && dim(caveat)}
    </div>
    <div>
      <h3>What is missed</h3>
      ${
        planted.length
          ? [
              table(['Size, share of the side', 'Opacity', 'Flagged (95 %)'], rows),
              dim('MedMix lesions in held-out normals; real ones may be easier or harder to find.'),
            ]
          : dim('Not measured yet: synthetic lesions in held-out normals show which sizes are missed.')
      }
      ${plant}
      <h3>What a score means</h3>
      ${
        calibration
          ? [
              dim(
                `${calibration.method} of the score on ${calibration.cases} decided cases, ${calibration.abnormal} ` +
                  `abnormal; ${calibration.apart}. Brier score ${fixed(calibration.brier)}.`,
              ),
              reliability(calibration),
            ]
          : dim(`The score is calibrated once ${enough} cases of each kind are decided.`)
      }
    </div>
  </div>`;
}
