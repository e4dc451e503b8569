// Several runs side by side: one curve of each, and the settings in which they differ.
import { api, questions } from '../../static/api.js';
import { Chart, COLOURS } from '../../static/chart.js';
import { el, fill, finder, offer, options, tr } from '../../static/dom.js';

/** @typedef {import('../../static/answers').Compared} Compared */

const UNSEEN = /^(epochs|epoch|seen|memory)$/;
const USUAL = [
  'loss',
  'l_aug',
  'aug_accuracy',
  'val_accuracy',
  'val_loss',
  'l_con',
  'l_ctr',
  'spread',
  'class_distance',
  'lr',
  'images_per_second',
];

/** What can be compared: the usual measures first, then the others by name. @param {import('../../static/types').Series[]} series */
export function measuresOf(series) {
  const names = new Set(series.flatMap(Object.keys).filter((n) => !UNSEEN.test(n)));
  return [...USUAL.filter((n) => names.has(n)), ...[...names].filter((n) => !USUAL.includes(n)).sort()];
}

/** @param {Compared} compared */
function differences({ runs, differences: rows }) {
  if (!rows.length) return el('p', { class: 'dim' }, 'None: these runs have the same settings.');
  const show = (/** @type {any} */ v) => (v == null ? '–' : Array.isArray(v) ? v.join(', ') : String(v));
  const names = runs.map((r, i) => el('th', { style: `color:${COLOURS[i]}` }, r.name));
  const lines = rows.map(({ key, values }) => tr([el('td', { class: 'dim' }, key), ...values.map(show)]));
  return el('table', {}, tr([el('th', {}, 'setting'), ...names]), lines);
}

export class Comparison {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.$ = finder(root);
    this.question = questions();
    this.chart = new Chart({ title: 'Compared' });
    /** @type {Compared | null} */
    this.compared = null;
    this.$('.plotted').append(this.chart.element);
    this.$('.measure').onchange = () => this.paint();
  }

  /** @param {Iterable<string>} ids of the runs */
  async open(ids) {
    const { $ } = this;
    const newest = this.question();
    const compared = await api(`/api/training/compare?run=${[...ids].join(',')}`);
    if (!newest()) return;
    this.compared = compared;
    const names = measuresOf(compared.series);
    offer($('.measure'), options(names.map((n) => [n, n])));
    fill($('.differences'), el('h2', {}, 'Settings that differ'), differences(compared));
    $('.detail').hidden = true;
    $('.versus').hidden = false;
    this.paint();
  }

  paint() {
    const name = this.$('.measure').value;
    const { runs = [], series = [] } = this.compared || {};
    this.chart.rename(name);
    this.chart.put(runs.map((r, i) => ({ name: r.name, colour: COLOURS[i], points: series[i][name] || [] })));
  }
}
