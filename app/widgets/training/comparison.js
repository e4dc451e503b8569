// Comparison of several runs: a chart for each chosen metric, with a curve per run, and the settings in which they differ.
import { api, questions } from '../../static/api.js';
import { Chart, COLOURS } from '../../static/chart.js';
import { action, el, fill, finder, tr } from '../../static/dom.js';
import { METRICS, metricName } from './figures.js';

const UNSEEN = /^(epochs|epoch|seen|memory)$/;
/** The metrics to compare, those with a name first. @param {Answers.Series[]} series */
export function measuresOf(series) {
  const names = [...new Set(series.flatMap(Object.keys))].filter((n) => !UNSEEN.test(n)).sort();
  const rank = (/** @type {string} */ n) => Object.keys(METRICS).indexOf(n.replace('val_', '')) >>> 0; // none: last
  return names.sort((a, b) => rank(a) - rank(b));
}

/** @param {Answers.Compared} compared */
function differences({ runs, differences: rows }) {
  if (!rows.length) return el('p', { class: 'dim' }, 'None: these runs have the same settings.');
  const show = (/** @type {any} */ v) => (v == null ? '–' : Array.isArray(v) ? v.join(', ') : String(v));
  const names = runs.map((r, i) => el('th', { scope: 'col', style: `color:${COLOURS[i]}` }, r.name));
  const lines = rows.map(({ key, values }) => tr([el('td', { class: 'dim' }, key), ...values.map(show)]));
  return el('table', {}, tr([el('th', { scope: 'col' }, 'Setting'), ...names]), lines);
}

export class Comparison {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.$ = finder(root);
    this.question = questions();
    /** @type {Set<string>} the drawn metrics, each in a separate chart */
    this.chosen = new Set(['loss', 'val_accuracy']);
    /** @type {Map<string, Chart>} */
    this.charts = new Map();
  }

  /** @param {Iterable<string>} ids of the runs */
  async open(ids) {
    const { $, chosen } = this;
    const newest = this.question();
    const compared = await api(`/api/training/compare?run=${[...ids].join(',')}`);
    if (!newest()) return;
    const names = measuresOf(compared.series);
    if (!names.some((name) => chosen.has(name)) && names[0]) chosen.add(names[0]);
    const button = (/** @type {string} */ name) => {
      const turn = () => {
        if (!chosen.delete(name)) chosen.add(name);
        made.ariaPressed = String(chosen.has(name));
        this.paint(compared);
      };
      const made = action(metricName(name), turn, { 'aria-pressed': String(chosen.has(name)) });
      return made;
    };
    fill($('.measures'), names.map(button));
    fill($('.differences'), el('h2', {}, 'Settings that differ'), differences(compared));
    $('.detail').hidden = true;
    $('.versus').hidden = false;
    this.paint(compared);
  }

  /** @param {Answers.Compared} compared */
  paint({ runs, series }) {
    const drawn = [...this.chosen].filter((name) => series.some((one) => one[name]));
    const charts = drawn.map((name) => {
      const chart = this.charts.get(name) || new Chart({ title: metricName(name) });
      this.charts.set(name, chart);
      chart.put(runs.map((r, i) => ({ name: r.name, colour: COLOURS[i], points: series[i][name] || [] })));
      return chart.element;
    });
    fill(this.$('.plotted'), charts);
  }
}
