// What the colours mean, how many there are, and switches to hide, show and isolate.
import { css, rampCss } from './palette.js';

export class Legend {
  constructor(root, studio, room) {
    Object.assign(this, { root, studio, room });
    this.colour = root.querySelector('.colour');
    this.fits = root.querySelector('.fit');
    this.list = root.querySelector('.entries');
    this.colour.onchange = () => room.colourBy(this.colour.value);
    this.fits.onchange = () => room.scoresOf(this.fits.value);
  }

  // Redrawn from the pane that was used last.
  render(pane) {
    const { el } = this.studio;
    this.root.hidden = !pane?.map;
    if (!pane?.map) return;
    this.colour.replaceChildren(...[...pane.columns.values()].map((c) => el('option', { value: c.name }, c.title)));
    this.colour.value = pane.column.name;
    this.root.querySelector('.fit-row').hidden = !pane.map.fits.length;
    this.fits.replaceChildren(...pane.map.fits.map((f) => el('option', { value: f.id }, f.name)));
    this.fits.value = pane.fit || '';
    const { column, plot } = pane;
    const hidden = this.room.hidden.get(column.name) || new Set();
    this.list.replaceChildren(...(column.codes ? this.categories(column, plot.colouring, hidden) : this.numbers(plot.colouring, hidden)));
  }

  categories(column, { table, counts }, hidden) {
    const { el } = this.studio;
    return column.names.map((name, c) => {
      const shown = !hidden.has(name);
      const label = name === '\u2013' ? 'none' : name;
      return el('div', { class: `entry${shown ? '' : ' off'}` },
        el('button', { class: 'toggle', 'aria-pressed': String(shown), 'aria-label': `${shown ? 'Hide' : 'Show'} ${label}`, onclick: () => this.room.toggle(column.name, name) },
          el('i', { style: `background:${css(table[c])}` }), el('span', { class: 'name' }, label), el('span', { class: 'num count' }, counts[c].toLocaleString('en'))),
        el('button', { class: 'alone', 'aria-label': `Only ${label}`, title: 'Only this', onclick: () => this.room.alone(column.name, name, column.names) }, 'only'));
    });
  }

  numbers({ low, high, unknown }, hidden) {
    const { el } = this.studio;
    const digits = (v) => (Number.isFinite(v) ? (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3)) : '\u2013');
    const shown = !hidden.has('unknown');
    return [
      el('div', { class: 'ramp', style: `background:${rampCss()}` }),
      el('div', { class: 'ends num' }, el('span', {}, digits(low)), el('span', {}, digits(high))),
      unknown ? el('div', { class: `entry${shown ? '' : ' off'}` },
        el('button', { class: 'toggle', 'aria-pressed': String(shown), onclick: () => this.room.toggle(this.colour.value, 'unknown') },
          el('i', { style: 'background:#4d5864' }), el('span', { class: 'name' }, 'not scored'), el('span', { class: 'num count' }, unknown.toLocaleString('en')))) : null,
    ].filter(Boolean);
  }
}
