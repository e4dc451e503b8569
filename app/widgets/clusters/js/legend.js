// What the colours mean, how many there are, and switches to hide, show and isolate.
import { el, finder } from '../../../static/dom.js';
import { css, rampCss } from './palette.js';

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

  // Redrawn from the pane that was used last.
  render(pane) {
    this.root.hidden = !pane?.map;
    if (!pane?.map) return;
    this.colour.replaceChildren(...[...pane.columns.values()].map((c) => el('option', { value: c.name }, c.title)));
    this.colour.value = pane.column.name;
    this.$('.fit-row').hidden = !pane.map.fits.length;
    this.fits.replaceChildren(...pane.map.fits.map((f) => el('option', { value: f.id }, f.name)));
    this.fits.value = pane.fit || '';
    const { column, plot } = pane;
    const hidden = this.clusters.hidden.get(column.name) || new Set();
    this.list.replaceChildren(
      ...(column.codes ? this.categories(column, plot.colouring, hidden) : this.numbers(plot.colouring, hidden)),
    );
  }

  categories(column, { table, counts }, hidden) {
    return column.names.map((name, c) => {
      const shown = !hidden.has(name);
      const label = name === '\u2013' ? 'none' : name;
      return el(
        'div',
        { class: `entry${shown ? '' : ' off'}` },
        el(
          'button',
          {
            class: 'toggle',
            'aria-pressed': String(shown),
            'aria-label': `${shown ? 'Hide' : 'Show'} ${label}`,
            onclick: () => this.clusters.toggle(column.name, name),
          },
          el('i', { style: `background:${css(table[c])}` }),
          el('span', { class: 'name' }, label),
          el('span', { class: 'num count' }, counts[c].toLocaleString('en')),
        ),
        el(
          'button',
          {
            class: 'alone',
            'aria-label': `Only ${label}`,
            title: 'Only this',
            onclick: () => this.clusters.alone(column.name, name, column.names),
          },
          'only',
        ),
      );
    });
  }

  numbers({ low, high, unknown }, hidden) {
    const digits = (v) => (Number.isFinite(v) ? (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3)) : '\u2013');
    const shown = !hidden.has('unknown');
    return [
      el('div', { class: 'ramp', style: `background:${rampCss()}` }),
      el('div', { class: 'ends num' }, el('span', {}, digits(low)), el('span', {}, digits(high))),
      unknown
        ? el(
            'div',
            { class: `entry${shown ? '' : ' off'}` },
            el(
              'button',
              {
                class: 'toggle',
                'aria-pressed': String(shown),
                onclick: () => this.clusters.toggle(this.colour.value, 'unknown'),
              },
              el('i', { style: 'background:#4d5864' }),
              el('span', { class: 'name' }, 'not scored'),
              el('span', { class: 'num count' }, unknown.toLocaleString('en')),
            ),
          )
        : null,
    ].filter(Boolean);
  }
}
