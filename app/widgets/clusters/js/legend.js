// The legend: what the colours mean, the counts, and switches to hide, show and isolate.
import { action, fill, finder, options } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { css, rampCss } from './palette.js';

/** @typedef {Required<import('./palette.js').Colouring>} Colouring */

export class Legend {
  /** @param {HTMLElement} root @param {import('./cluster_view.js').ClusterView} clusters */
  constructor(root, clusters) {
    this.root = root;
    this.$ = finder(root);
    this.clusters = clusters;
    this.colour = this.$('.colour');
    this.fits = this.$('.fit');
    this.list = this.$('.entries');
    this.colour.onchange = () => clusters.colourBy(this.colour.value);
    this.fits.onchange = () => clusters.scoresOf(this.fits.value);
  }

  /** Redraws the legend from the pane that was used last. @param {import('./pane.js').Pane} pane */
  render(pane) {
    this.root.hidden = !pane?.map;
    if (!pane?.map) return;
    fill(this.colour, options([...pane.columns.values()].map((c) => [c.name, c.title])));
    this.colour.value = pane.column.name;
    this.$('.fit-row').hidden = !pane.map.fits.length;
    fill(this.fits, options(pane.map.fits.map((f) => [f.id, f.name])));
    this.fits.value = pane.fit || '';
    const { column, plot } = pane;
    const colouring = /** @type {Colouring} */ (plot.colouring); // the fields that this kind of column has
    const hidden = this.clusters.hidden.get(column.name) || new Set();
    fill(this.list, column.codes ? this.categories(column, colouring, hidden) : this.numbers(colouring, hidden));
  }

  /** @param {Answers.Column} column @param {Colouring} colouring @param {Set<string>} hidden */
  categories(column, { table, counts }, hidden) {
    const { names = [] } = column;
    return names.map((name, c) => {
      const label = name === '\u2013' ? 'none' : name;
      const toggle = () => this.clusters.toggle(column.name, name);
      const look = { class: 'alone', 'aria-label': `Only ${label}`, title: 'Show only this' };
      const only = action('only', () => this.clusters.alone(column.name, name, names), look);
      return entry({ label, shown: !hidden.has(name), colour: css(table[c]), count: counts[c], toggle }, only);
    });
  }

  /** @param {Colouring} colouring @param {Set<string>} hidden */
  numbers({ low, high, unknown }, hidden) {
    const digits = (/** @type {number} */ v) =>
      Number.isFinite(v) ? (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3)) : '\u2013';
    const toggle = () => this.clusters.toggle(this.colour.value, 'unknown');
    const rest = { label: 'not scored', shown: !hidden.has('unknown'), colour: '#4d5864', count: unknown, toggle };
    return dom`<div class="ramp" style="background:${rampCss()}" />
      <div class="ends num"><span>${digits(low)}</span><span>${digits(high)}</span></div>
      ${unknown > 0 && entry(rest)}`;
  }
}

/** Builds one line of the legend: a switch with colour, name and count, and further elements.
 * @param {{label: string, shown: boolean, colour: string, count: number, toggle: () => void}} about @param
 * {...HTMLElement} more */
function entry({ label, shown, colour, count, toggle }, ...more) {
  const name = `${shown ? 'Hide' : 'Show'} ${label}`;
  return dom`<div class="entry${shown ? '' : ' off'}">
    <button type="button" class="toggle" aria-pressed=${String(shown)} aria-label=${name} onclick=${toggle}>
      <i style="background:${colour}" /><span class="name">${label}</span>
      <span class="num count">${count.toLocaleString('en')}</span>
    </button>
    ${more}
  </div>`;
}
