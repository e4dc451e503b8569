// The board of a running pre-training: curves, the current batch, speed and confusion matrix.
import { Chart, COLOURS } from '../../static/chart.js';
import { fill } from '../../static/dom.js';
import { bytes, fixed, shareOf } from '../../static/format.js';
import { block, confusionTable, figuresOf, metricName, table } from './figures.js';

const COLLAPSED = 0.1; // a spread below this share of the first steps' counts as a collapse
const REST = 4000; // minimum milliseconds between two pictures of a batch

/** The spread of collapsed features: a share of the median of the first five. @param {Answers.Series} series */
export function collapseLevel({ spread = [] }) {
  const first = spread
    .slice(0, 5)
    .flatMap(([, v]) => (v == null ? [] : [v]))
    .sort((a, b) => a - b);
  return first.length ? first[Math.floor(first.length / 2)] * COLLAPSED : null;
}

export class TrainingBoard {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.charts = {
      losses: new Chart({ title: 'Losses' }),
      accuracy: new Chart({ title: 'Class accuracy', low: 0, high: 1 }),
      distance: new Chart({ title: 'Class distances', low: 0 }),
      spread: new Chart({ title: 'Feature spread', low: 0 }),
    };
    this.strip = block('Current batch', 'strip');
    this.figures = block('Speed and confusion', 'figures');
    /** @type {number | null} the step of the batch on screen */
    this.stripStep = null;
    this.stripAfter = 0; // earliest time of the next request
    this.id = '';
    root.append(...Object.values(this.charts).map((chart) => chart.element), this.strip.element, this.figures.element);
  }

  /** @param {string} id of the run to show */
  clear(id) {
    this.id = id;
    this.stripStep = null;
    this.stripAfter = 0;
    fill(this.strip.inside);
    fill(this.figures.inside);
    for (const chart of Object.values(this.charts)) chart.put([]);
  }

  /** @param {Answers.RunDetail} data @param {Answers.Series} series @param {number} last step */
  paint(data, series, last) {
    this.#curves(data, series);
    this.#figures(data, series);
    this.#batch(data, last);
  }

  /** @param {Answers.RunDetail} data @param {Answers.Series} s */
  #curves(data, s) {
    const line = (/** @type {string} */ name, /** @type {string} */ key, /** @type {number} */ colour, more = {}) => ({
      name,
      points: s[key] || [],
      colour: COLOURS[colour],
      ...more,
    });
    const { losses, accuracy, distance, spread } = this.charts;
    const k = (data.run.config.k ?? 3) + 1;
    losses.put([
      line('total', 'loss', 5, { thick: true }),
      line('centring', 'l_ctr', 0),
      line('contrastive', 'l_con', 1),
      line('constant feature', 'l_con_constant', 1, { dash: true }),
      line('class', 'l_aug', 2),
      line('position', 'l_pos', 3),
      line('variance', 'l_var', 6),
      line('held out', 'val_loss', 4, { dash: true }),
    ]);
    accuracy.options.lines = [{ at: 1 / k, label: 'chance' }];
    accuracy.put([line('training', 'aug_accuracy', 0), line('held out', 'val_accuracy', 1, { thick: true })]);
    distance.put([
      line('between', 'class_distance', 5, { thick: true }),
      ...Array.from({ length: k }, (_, n) => line(`to centre ${n}`, `centre_distance_${n}`, n)),
    ]);
    const collapse = collapseLevel(s);
    spread.options.lines = collapse == null ? [] : [{ at: collapse, label: 'collapse' }];
    spread.put([line('spread', 'spread', 0, { thick: true })]);
  }

  /** @param {Answers.RunDetail} data @param {Answers.Series} s */
  #figures(data, s) {
    const now = (/** @type {string} */ name) => s[name]?.at(-1)?.[1] ?? null;
    const [rate, speed, memory, auroc] = ['lr', 'images_per_second', 'memory', 'val_auroc'].map(now);
    const [heldOut, images] = ['val_accuracy', 'val_images'].map(now);
    const pairs = table([
      [metricName('lr'), rate == null ? null : String(Number(rate.toPrecision(3)))],
      ['Views/s', speed == null ? null : fixed(speed, speed < 10 ? 1 : 0)],
      ['Memory', memory == null ? null : bytes(memory)],
      ['Accuracy, held out', heldOut == null || !images ? null : shareOf(heldOut, images)],
      [metricName('val_auroc'), auroc == null ? null : fixed(auroc)],
      ...(data.evaluation ? figuresOf(data.evaluation) : []),
    ]);
    fill(this.figures.inside, pairs, data.confusion && confusionTable(data.confusion));
  }

  /** Shows a step's samples, which follow from the run's seed; recomputed rarely, so as not to slow the training.
   * @param {Answers.RunDetail} data @param {number} last */
  #batch({ run }, last) {
    const step = Math.max(0, last);
    if (!run.config.epochs || this.stripStep === step || performance.now() < this.stripAfter) return;
    if (last < 0 && run.status !== 'running') return;
    const from = performance.now();
    const { id } = this;
    this.stripStep = step;
    this.stripAfter = Infinity;
    const picture = new Image();
    picture.alt = `Weak views of each class in the batch of step ${step}`;
    picture.onload = () => {
      const took = performance.now() - from;
      this.stripAfter = performance.now() + Math.max(REST, 15 * took);
      if (id === this.id) fill(this.strip.inside, picture);
    };
    picture.onerror = () => (this.stripAfter = performance.now() + 10_000);
    picture.src = `./api/training/run/${id}/batch.png?step=${step}`;
  }
}
