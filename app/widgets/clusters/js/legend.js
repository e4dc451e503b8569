// The legend: what the colours mean, the counts, and switches to hide, show and isolate.
import { action, el, finder } from '../../../static/dom.js';
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
    this.colour.replaceChildren(...[...pane.columns.values()].map((c) => el('option', { value: c.name }, c.title)));
    this.colour.value = pane.column.name;
    this.$('.fit-row').hidden = !pane.map.fits.length;
    this.fits.replaceChildren(...pane.map.fits.map((f) => el('option', { value: f.id }, f.name)));
    this.fits.value = pane.fit || '';
    const { column, plot } = pane;
    const colouring = /** @type {Colouring} */ (plot.colouring); // the fields that this kind of column has
    const hidden = this.clusters.hidden.get(column.name) || new Set();
    this.list.replaceChildren(
      ...(column.codes ? this.categories(column, colouring, hidden) : this.numbers(colouring, hidden)),
    );
  }

  /** @param {Answers.Column} column @param {Colouring} colouring @param {Set<string>} hidden */
  categories(column, { table, counts }, hidden) {
    const { names = [] } = column;
    return names.map((name, c) => {
      const shown = !hidden.has(name);
      const label = name === '\u2013' ? 'none' : name;
      const toggle = () => this.clusters.toggle(column.name, name);
      return entry(
        { label, shown, colour: css(table[c]), count: counts[c], toggle },
        action('only', () => this.clusters.alone(column.name, name, names), {
          class: 'alone',
          'aria-label': `Only ${label}`,
          title: 'Only this',
        }),
      );
    });
  }

  /** @param {Colouring} colouring @param {Set<string>} hidden */
  numbers({ low, high, unknown }, hidden) {
    const digits = (/** @type {number} */ v) =>
      Number.isFinite(v) ? (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3)) : '\u2013';
    const shown = !hidden.has('unknown');
    return [
      el('div', { class: 'ramp', style: `background:${rampCss()}` }),
      el('div', { class: 'ends num' }, el('span', {}, digits(low)), el('span', {}, digits(high))),
      unknown
        ? entry({
            label: 'not scored',
            shown,
            colour: '#4d5864',
            count: unknown,
            toggle: () => this.clusters.toggle(this.colour.value, 'unknown'),
          })
        : null,
    ].filter(Boolean);
  }
}

/** Builds one line of the legend: a switch with colour, name and count, and further elements.
 * @param {{label: string, shown: boolean, colour: string, count: number, toggle: () => void}} about @param
 * {...HTMLElement} more */
function entry({ label, shown, colour, count, toggle }, ...more) {
  const button = action(
    [
      el('i', { style: `background:${colour}` }),
      el('span', { class: 'name' }, label),
      el('span', { class: 'num count' }, count.toLocaleString('en')),
    ],
    toggle,
    { class: 'toggle', 'aria-pressed': String(shown), 'aria-label': `${shown ? 'Hide' : 'Show'} ${label}` },
  );
  return el('div', { class: `entry${shown ? '' : ' off'}` }, button, ...more);
}
