// The board of a detector's fit: its losses and its results.
import { Chart } from '../../static/chart.js';
import { el, fill } from '../../static/dom.js';
import { fixed } from '../../static/format.js';
import { block, figuresOf, metricName, table } from './figures.js';

const LOSS = /^(loss|l_|generator|critic|classifier|reconstruction)/;
const SILENT = /^(step|steps|epoch|stage|seen)$/;

/** Assigns the series of a fit to charts. @param {Answers.Series} series */
export function chartsOf(series) {
  const names = Object.keys(series).filter((n) => !SILENT.test(n) && series[n].length > 1);
  const losses = names.filter((n) => LOSS.test(n));
  return { losses, rate: names.filter((n) => n === 'lr'), rest: names.filter((n) => !LOSS.test(n) && n !== 'lr') };
}

export class FitBoard {
  constructor() {
    this.charts = {
      losses: new Chart({ title: 'Losses' }),
      rate: new Chart({ title: 'Learning rate', low: 0 }),
      rest: new Chart({ title: 'Other metrics', low: 0 }),
    };
    this.fitted = block('Fit', 'fitted');
    this.result = block('On the test images', 'result');
    const parts = [...Object.values(this.charts), this.fitted, this.result].map(({ element }) => element);
    this.element = el('div', { class: 'board of-fit', hidden: true }, parts);
  }

  clear() {
    for (const chart of Object.values(this.charts)) chart.put([]);
  }

  /** @param {Answers.RunDetail} data @param {Answers.Series} series */
  paint(data, series) {
    const wanted = chartsOf(series);
    for (const name of /** @type {const} */ (['losses', 'rate', 'rest'])) {
      const chart = this.charts[name];
      const line = (/** @type {string} */ key) => ({
        name: metricName(key),
        points: series[key],
        thick: key === 'loss',
      });
      chart.element.hidden = !wanted[name].length;
      chart.put(wanted[name].map(line));
    }
    this.#fitted(data, series);
    this.result.element.hidden = !data.evaluation;
    if (data.evaluation) fill(this.result.inside, table(figuresOf(data.evaluation)));
  }

  /** @param {Answers.RunDetail} data @param {Answers.Series} series */
  #fitted({ run, job }, series) {
    const at = Math.max(-1, ...Object.values(series).map((points) => points.at(-1)?.[0] ?? -1));
    const { images, scored, score_seconds: took, threshold_roi: threshold, rule } = run.summary;
    const pairs = table([
      ['status', job?.here && job.status === 'running' ? job.message : ''],
      ['steps', at < 0 ? null : at],
      ['score rule', rule?.name],
      ['training images', images],
      ['cases scored', scored],
      ['seconds to score them', took == null ? null : fixed(took, 1)],
      ['threshold, held-out normals', threshold == null ? null : fixed(threshold, 4)],
    ]);
    fill(this.fitted.inside, pairs);
  }
}
