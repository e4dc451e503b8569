// The boards of a run: curves, the current batch and figures of a pre-training; losses and results of a detector's fit.
import { useEffect, useRef } from 'preact/hooks';
import { COLOURS } from '../../static/chart.js';
import { fill, matrix } from '../../static/dom.js';
import { bytes, fixed, shareOf } from '../../static/format.js';
import { html } from '../../static/view.js';
import { Curves, figuresOf, metricName, pairs } from './figures.js';

const COLLAPSED = 0.1; // a spread below this share of the first steps' counts as a collapse
const REST = 4000; // minimum milliseconds between two pictures of a batch
const LOSS = /^(loss|l_|generator|critic|classifier|reconstruction)/;
const SILENT = /^(step|steps|epoch|stage|seen)$/;

/** The spread of collapsed features: a share of the median of the first five. @param {Answers.Series} series */
export function collapseLevel({ spread = [] }) {
  const first = spread
    .slice(0, 5)
    .flatMap(([, v]) => (v == null ? [] : [v]))
    .sort((a, b) => a - b);
  return first.length ? first[Math.floor(first.length / 2)] * COLLAPSED : null;
}

/** Assigns the series of a fit to charts. @param {Answers.Series} series */
export function chartsOf(series) {
  const names = Object.keys(series).filter((n) => !SILENT.test(n) && series[n].length > 1);
  const losses = names.filter((n) => LOSS.test(n));
  return { losses, rate: names.filter((n) => n === 'lr'), rest: names.filter((n) => !LOSS.test(n) && n !== 'lr') };
}

/** Shows names and values; those without a value are skipped. @param {unknown[][]} of */
const shown = (of) => html`<div class="speed">${pairs(of.filter(([, value]) => value != null && value !== ''))}</div>`;

/** Shows a step's samples, which follow from the run's seed; recomputed rarely, so as not to slow the training.
 * @param {{run: Answers.Run, last: number}} props */
function Batch({ run, last }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const asked = useRef({ step: -1, after: 0 }).current; // the step on screen, and the earliest time of the next request
  useEffect(() => {
    const step = Math.max(0, last);
    const from = performance.now();
    if (!run.config.epochs || asked.step === step || from < asked.after) return;
    if (last < 0 && run.status !== 'running') return;
    Object.assign(asked, { step, after: Infinity });
    const picture = new Image();
    picture.alt = `Weak views of each class in the batch of step ${step}`;
    picture.onload = () => {
      const now = performance.now();
      asked.after = now + Math.max(REST, 15 * (now - from));
      place.current?.replaceChildren(picture);
    };
    picture.onerror = () => (asked.after = performance.now() + 10_000);
    picture.src = `./api/training/run/${run.id}/batch.png?step=${step}`;
  });
  return html`<div class="block strip"><b>Current batch</b><div class="in" ref=${place} /></div>`;
}

/** @param {{data: Answers.RunDetail}} props */
function SpeedAndConfusion({ data: { evaluation, confusion, series } }) {
  const now = (/** @type {string} */ name) => series[name]?.at(-1)?.[1] ?? null;
  const [rate, speed, memory, auroc] = ['lr', 'images_per_second', 'memory', 'val_auroc'].map(now);
  const [heldOut, images] = ['val_accuracy', 'val_images'].map(now);
  const figures = [
    [metricName('lr'), rate == null ? null : String(Number(rate.toPrecision(3)))],
    ['Views/s', speed == null ? null : fixed(speed, speed < 10 ? 1 : 0)],
    ['Memory', memory == null ? null : bytes(memory)],
    ['Accuracy, held out', heldOut == null || !images ? null : shareOf(heldOut, images)],
    [metricName('val_auroc'), auroc == null ? null : fixed(auroc)],
    ...(evaluation ? figuresOf(evaluation) : []),
  ];
  const draw = (/** @type {HTMLElement | null} */ box) => {
    if (!box || !confusion) return;
    const title = `Step ${confusion.step}: rows are the true class, columns the predicted one`;
    fill(box, matrix(confusion.rows, '', String, title));
  };
  return html`<div class="block figures"><b>Speed and confusion</b><div class="in">
    ${shown(figures)}${confusion && html`<div ref=${draw} />`}
  </div></div>`;
}

/** The board of a pre-training. @param {{data: Answers.RunDetail}} props */
export function TrainingBoard({ data }) {
  const { run, series, last } = data;
  const line = (/** @type {string} */ name, /** @type {string} */ key, /** @type {number} */ colour, more = {}) => ({
    name,
    points: series[key] || [],
    colour: COLOURS[colour],
    ...more,
  });
  const [thick, dash] = [{ thick: true }, { dash: true }];
  const k = (run.config.k ?? 3) + 1;
  const losses = [
    line('total', 'loss', 5, thick),
    line('centring', 'l_ctr', 0),
    line('contrastive', 'l_con', 1),
    line('constant feature', 'l_con_constant', 1, dash),
    line('class', 'l_aug', 2),
    line('position', 'l_pos', 3),
    line('variance', 'l_var', 6),
    line('held out', 'val_loss', 4, dash),
  ];
  const accuracy = [line('training', 'aug_accuracy', 0), line('held out', 'val_accuracy', 1, thick)];
  const toCentres = Array.from({ length: k }, (_, n) => line(`to centre ${n}`, `centre_distance_${n}`, n));
  const collapse = collapseLevel(series);
  return html`
    <${Curves} title="Losses" lines=${losses} />
    <${Curves} title="Class accuracy" low=${0} high=${1} levels=${[{ at: 1 / k, label: 'chance' }]} lines=${accuracy} />
    <${Curves} title="Class distances" low=${0} lines=${[line('between', 'class_distance', 5, thick), ...toCentres]} />
    <${Curves} title="Feature spread" low=${0} levels=${collapse == null ? [] : [{ at: collapse, label: 'collapse' }]}
      lines=${[line('spread', 'spread', 0, thick)]} />
    <${Batch} run=${run} last=${last} />
    <${SpeedAndConfusion} data=${data} />`;
}

/** The board of a detector's fit. @param {{data: Answers.RunDetail}} props */
export function FitBoard({ data: { run, job, evaluation, series } }) {
  const { losses, rate, rest } = chartsOf(series);
  const lines = (/** @type {string[]} */ names) =>
    names.map((key) => ({ name: metricName(key), points: series[key], thick: key === 'loss' }));
  const at = Math.max(-1, ...Object.values(series).map((points) => points.at(-1)?.[0] ?? -1));
  const { images, scored, score_seconds: took, threshold_roi: threshold, rule } = run.summary;
  const fitted = [
    ['status', job?.here && job.status === 'running' ? job.message : ''],
    ['steps', at < 0 ? null : at],
    ['score rule', rule?.name],
    ['training images', images],
    ['cases scored', scored],
    ['seconds to score them', took == null ? null : fixed(took, 1)],
    ['threshold, held-out normals', threshold == null ? null : fixed(threshold, 4)],
  ];
  const block = (/** @type {string} */ name, /** @type {string} */ title, /** @type {unknown[][]} */ of) =>
    html`<div class="block ${name}"><b>${title}</b><div class="in">${shown(of)}</div></div>`;
  return html`
    ${losses.length > 0 && html`<${Curves} title="Losses" lines=${lines(losses)} />`}
    ${rate.length > 0 && html`<${Curves} title="Learning rate" low=${0} lines=${lines(rate)} />`}
    ${rest.length > 0 && html`<${Curves} title="Other metrics" low=${0} lines=${lines(rest)} />`}
    ${block('fitted', 'Fit', fitted)}
    ${evaluation && block('result', 'On the test images', figuresOf(evaluation))}`;
}
