// Tables of the Results tab: figures at the threshold, comparisons of detectors and of readers, verdicts, and a run's
// reliability: what its limit guarantees, what it misses by planted lesions, changed images, calibrated scores.
import { fixed, percent, plural, shareOf } from '../../static/format.js';
import { button, html, tableOf } from '../../static/view.js';

/** @typedef {Pick<Answers.FleissKappa, 'kappa' | 'low' | 'high'>} Kappa */

/** @param {Answers.Share} s */
const interval = ({ value, low, high, hits, n }) =>
  value === null || low === null || high === null
    ? ''
    : `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, ${hits} of ${n}`;
/** @param {Kappa} k */
const kappa = ({ kappa: value, low, high }) =>
  value === null ? '–' : `${fixed(value, 2)}${low === null ? '' : ` (${fixed(low, 2)} to ${fixed(high, 2)})`}`;

/** A cell of figures. @param {unknown} words @param {string} [look] @param {string} [title] */
export const num = (words, look = '', title) => html`<td class="num ${look}" title=${title}>${words}</td>`;
/** @param {unknown} words */
const dim = (words) => num(words, 'dim');

/** A button that shows a run. @param {string} run @param {string} title @param {string | null} now the run whose
 * results are shown @param {(run: string) => void} show */
const choice = (run, title, now, show) =>
  button(title, () => show(run), { 'aria-pressed': run === now, title: 'Show the results of this run' });

/** @param {string} title @param {Answers.OperatingPoint} point @param {Record<string, Answers.Share>} [more] */
export function figures(title, { sensitivity, specificity, ppv, npv }, more = {}) {
  const shares = Object.entries({ Sensitivity: sensitivity, Specificity: specificity, PPV: ppv, NPV: npv, ...more });
  const row = (/** @type {[string, Answers.Share]} */ [name, s]) =>
    html`<tr><th scope="row">${name}</th>${num(percent(s.value))}${dim(interval(s))}</tr>`;
  return html`<div><h3>${title}</h3>${tableOf([], shares.map(row))}</div>`;
}

/** @param {Answers.Agreement} a @param {(id: number, name: string) => any} link to a case */
export function agreement({ pairs, fleiss, differ }, link) {
  if (!pairs.length) return html`<p class="dim">Appears when two readers have read the same cases.</p>`;
  const title = 'Normal, abnormal, unsure; rows: first reader, columns: second reader';
  const rows = pairs.map((p) => {
    const counts = p.confusion.map((r) => r.join(' ')).join(' / ');
    const cells = [num(kappa(p)), num(shareOf(p.agreement, p.n)), num(p.n), num(counts, 'dim', title)];
    return html`<tr><td>${p.readers.join(' and ')}</td>${cells}</tr>`;
  });
  const cases = differ.slice(0, 30).map(({ case: id, name, decisions, adjudication: settled }) => {
    const said = Object.entries(decisions).map(([reader, decision]) => `${reader}: ${decision}`);
    return html`<tr>
      <td>${link(id, name)}</td><td>${said.join(', ')}</td>
      <td>${settled ? `adjudicated by ${settled.reader}: ${settled.decision}` : 'not adjudicated'}</td>
    </tr>`;
  });
  const all = fleiss && `All ${fleiss.readers} readers: Fleiss’ κ ${kappa(fleiss)} on ${plural(fleiss.n, 'case')}`;
  return html`<div>
    ${tableOf(['Readers', 'Cohen’s κ (95 %)', 'Agreement (95 %)', 'Cases', 'Confusion N A U'], rows)}
    ${all && html`<p class="num">${all}</p>`}
    <details><summary>${plural(differ.length, 'case')} with different decisions</summary>${tableOf([], cases)}</details>
  </div>`;
}

/** Second decisions of a blind study against the first. @param {Answers.ResultsOfRun['minds']} minds */
export function changedMinds(minds) {
  const rows = Object.entries(minds).map(([reader, v]) => {
    const counts = [v.both, v.to_abnormal, v.to_normal, v.to_unsure, v.for_better, v.for_worse];
    return html`<tr><td>${reader}</td>${counts.map((n) => num(n))}</tr>`;
  });
  if (!rows.length)
    return html`<p class="dim">Appears in a blind study when readers decide again with the score in view.</p>`;
  const heads = ['Reader', 'Read twice', 'To abnormal', 'To normal', 'To unsure', 'Corrected', 'Made worse'];
  return tableOf(heads, rows);
}

/** @param {Answers.ComparedRow[]} rows @param {string | null} now the run whose results are
 * shown @param {(run: string) => void} show */
export function detectors(rows, now, show) {
  /** @param {Answers.ComparedRow} r @param {'auroc' | 'pixel_auroc' | 'dice' | 'pro' | 'pro_all'} m */
  const figure = (r, m) => {
    const ci = r[`${m}_ci`];
    const title = ci ? `95 % interval ${ci.map((v) => fixed(v)).join(' to ')}` : undefined;
    return num(fixed(r[m]), r.best.includes(m) ? 'rs-best' : '', title);
  };
  const others = /** @type {const} */ (['pixel_auroc', 'dice', 'pro', 'pro_all']);
  const lines = rows.map(
    (r) => html`<tr data-run=${r.run || 'baseline'}>
      <td>${r.run ? choice(r.run, r.title, now, show) : r.title}</td>
      <td class="dim">${r.encoder ? `${r.name} on ${r.encoder}` : r.name}</td>
      ${dim(r.cases)}${figure(r, 'auroc')}${dim(r.auroc_ci?.map((v) => fixed(v, 2)).join(' to '))}${dim(r.localised)}
      ${others.map((m) => figure(r, m))}
    </tr>`,
  );
  const heads = ['Detector', 'Run', 'Cases', 'Image AUROC', '95 %', 'With a mask', 'Pixel AUROC', 'Dice', 'PRO'];
  const sets = new Set(rows.filter((r) => r.cases).map((r) => r.set));
  const apart = 'These runs were evaluated on different cases, labels or masks, so none is marked as best.';
  return html`<div class="rs-compared">
    ${sets.size > 1 && html`<p class="warn">${apart}</p>`}
    ${tableOf([...heads, 'PRO, all images'], lines)}
  </div>`;
}

// One verdict in plain words on each detector, above all figures.
const SIGN = { good: '✓', warn: '!', bad: '✕', none: '–' };
const MEANING = { good: 'reliable', warn: 'use with care', bad: 'unreliable', none: 'unknown' };

/** @param {Answers.Verdict[]} rows @param {string | null} now the run whose results are shown
 * @param {(run: string) => void} show */
export function verdicts(rows, now, show) {
  /** @param {Answers.Verdict} verdict */
  const line = ({ run, title, level, words, advice }) => html`<li class="rs-verdict ${level}">
    <span class="rs-sign" role="img" aria-label=${MEANING[level]}>${SIGN[level]}</span>
    ${choice(run, title, now, show)}
    <p class="num">${words}${advice && html`<span class="rs-advice"> ${advice}</span>`}</p>
  </li>`;
  return html`<section class="panel rs-wide"><h2>Verdict</h2><ul class="rs-verdicts">${rows.map(line)}</ul></section>`;
}

/** How often cases of a predicted probability were called abnormal. @param {NonNullable<Answers.Reliability['calibration']>} calibration */
function reliability({ points }) {
  const share = (/** @type {number | null} */ v) => percent(v, 0);
  const row = (/** @type {(typeof points)[number]} */ { chance, value, low, high, n }) =>
    html`<tr>${num(share(chance))}${num(`${share(value)} (${share(low)} to ${share(high)})`)}${num(n)}</tr>`;
  return tableOf(['Predicted chance', 'Called abnormal (95 %)', 'Cases'], points.map(row));
}

/** Describes the guarantee of the threshold that limits false alarms. @param {Answers.ConformalThreshold | null} p */
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

/** Shows how the images differ, with typical pictures of both sides. @param {Answers.Reliability['plain'][number]} group */
function differing({ of, rows, pictures }) {
  const image = (/** @type {number} */ id) =>
    html`<img src="./api/case/${id}/thumb.png?size=200" alt="" loading="lazy" />`;
  const row = (/** @type {string} */ words, /** @type {number[]} */ cases) =>
    html`<figure><figcaption class="dim">${words}</figcaption>${cases.map(image)}</figure>`;
  const differences = rows.map(({ measure, usual, new: now }) => `${measure} ${fixed(now)} instead of ${fixed(usual)}`);
  return html`<p class="num">Images of ${of}: ${differences.join(', ')}.</p>
    ${pictures && html`<div class="rs-sides">${row('held out', pictures.usual)}${row('new', pictures.new)}</div>`}`;
}

/** @param {Answers.Reliability} found @param {any} plant a button that measures missed lesions */
export function believed({ promise, planted, changed, plain, calibration, enough }, plant) {
  const rows = planted.map(({ size, contrast, found: { value, low, high } }) => {
    const [of, least, most] = [value, low, high].map((v) => percent(v, 0));
    const cells = [percent(size, 0), percent(contrast, 0), `${of} (${least} to ${most})`];
    return html`<tr>${cells.map((words) => num(words))}</tr>`;
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
              tableOf(['Size, share of the side', 'Opacity', 'Flagged (95 %)'], rows),
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
