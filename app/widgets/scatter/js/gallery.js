// The selection as pictures: how many of which class, the images, what can be done with them.
const PAGE = 40;

export class Gallery {
  constructor(root, studio, room) {
    Object.assign(this, { root, studio, room });
  }

  render(pane, points) {
    const { el } = this.studio;
    const { column } = pane;
    const counts = new Map();
    if (column.codes) for (const i of points) counts.set(column.codes[i], (counts.get(column.codes[i]) || 0) + 1);
    const parts = [...counts].sort((a, b) => b[1] - a[1]).map(([code, n]) => el('span', { class: 'part' },
      el('i', { style: `background:${this.room.colourCss(pane, code)}` }), `${column.names[code] === '\u2013' ? 'none' : column.names[code]} `, el('b', { class: 'num' }, n.toLocaleString('en'))));
    const grid = el('div', { class: 'tiles' });
    const more = el('button', { class: 'small more' }, 'More');
    let shown = 0;
    const add = () => {
      grid.append(...Array.from(points.slice(shown, shown + PAGE), (i) => this.tile(pane, i)));
      shown = Math.min(shown + PAGE, points.length);
      more.hidden = shown >= points.length;
      more.textContent = `Show more of the ${(points.length - shown).toLocaleString('en')} left`;
    };
    more.onclick = add;
    add();
    this.root.hidden = false;
    this.root.replaceChildren(
      el('div', { class: 'head' }, el('h2', {}, `${points.length.toLocaleString('en')} selected`)),
      el('div', { class: 'parts' }, parts), grid, more,
    );
  }

  tile(pane, i) {
    const { el } = this.studio;
    return el('button', { class: 'thumb', 'data-point': i, 'data-case': pane.map.cases[i], onclick: () => this.room.focus(pane, i), onpointerenter: () => this.room.flash(pane, i), onpointerleave: () => this.room.flash(pane, -1) },
      el('img', { src: pane.map.thumb(i), alt: '', loading: 'lazy' }), el('i', { style: `background:${this.room.colourOf(pane, i)}` }));
  }
}
