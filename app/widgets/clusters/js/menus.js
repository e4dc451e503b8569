// Two menus: named views of the maps, and what can be saved as a file.
export class Menus {
  constructor(root, studio, room) {
    Object.assign(this, { root, studio, room, views: [] });
    for (const [name, fill] of [['views', () => this.viewItems()], ['out', () => this.files()]]) {
      const menu = root.querySelector(`.menu.${name}`);
      menu.addEventListener('toggle', () => { if (menu.open) menu.querySelector('.sheet').replaceChildren(...fill()); });
      menu.addEventListener('keydown', (event) => { if (event.key === 'Escape') { menu.open = false; menu.querySelector('summary').focus(); } });
    }
    document.addEventListener('pointerdown', (event) => {
      root.querySelectorAll('.menu[open]').forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
    });
  }
  close() { this.root.querySelectorAll('.menu').forEach((menu) => { menu.open = false; }); }

  // Files ------------------------------------------------------------------------------------------
  files() {
    const { el } = this.studio;
    const pane = this.room.active.map ? this.room.active : this.room.panes[0];
    if (!pane.map) return [el('p', { class: 'dim' }, 'There is no map yet.')];
    const query = new URLSearchParams();
    if (pane.fit) query.set('fit', pane.fit);
    if (pane.column.codes) query.set('colour', pane.column.name);
    const off = this.room.hidden.get('class');
    if (pane.column.name === 'class' && off?.size) query.set('hide', [...off].join('|'));
    const link = (format, text, more = {}) => {
      const q = new URLSearchParams(query);
      for (const [k, v] of Object.entries(more)) q.set(k, v);
      return el('a', { href: `${pane.map.base}/file.${format}?${q}`, download: '', onclick: () => setTimeout(() => this.close(), 0) }, text);
    };
    const now = { epoch: pane.epoch };
    const several = pane.map.epochs > 1;
    return [
      el('h3', {}, several ? `Figure, epoch ${pane.epoch}` : 'Figure'),
      link('svg', 'SVG', now), link('pdf', 'PDF', now), link('png', 'PNG', now),
      ...(several ? [el('h3', {}, 'Figure, all epochs'), link('svg', 'SVG'), link('pdf', 'PDF'), link('png', 'PNG')] : []),
      el('h3', {}, 'Table of all points'), link('csv', 'CSV'), link('parquet', 'Parquet'),
      el('h3', {}, 'As it is on the screen'), el('button', { class: 'item', onclick: () => this.picture(pane) }, 'PNG'),
    ];
  }
  picture(pane) {
    const { plot } = pane;
    const out = document.createElement('canvas');
    out.width = plot.over.width;
    out.height = plot.over.height;
    const ink = out.getContext('2d');
    ink.drawImage(plot.points, 0, 0, out.width, out.height);
    ink.drawImage(plot.over, 0, 0);
    out.toBlob((blob) => {
      const href = URL.createObjectURL(blob);
      this.studio.el('a', { href, download: `${this.room.study}-epoch-${pane.epoch}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(href), 10_000);
    });
    this.close();
  }

  // Views ------------------------------------------------------------------------------------------
  viewItems() {
    const { el } = this.studio;
    const name = el('input', { type: 'text', placeholder: 'name of this view', maxlength: 60, 'aria-label': 'Name of this view' });
    const save = () => this.run(async () => {
      if (!name.value.trim()) return;
      await this.studio.api('/api/clusters/views', { study: this.room.study, name: name.value, state: this.state() });
      this.studio.toast(`View \u201c${name.value.trim()}\u201d saved.`, 'good');
      await this.room.listMaps();
      this.close();
    });
    name.addEventListener('keydown', (event) => { if (event.key === 'Enter') save(); });
    const kept = this.views.map((view) => el('div', { class: 'line' },
      el('button', { class: 'item', onclick: () => this.run(() => this.restore(view.state)) }, view.name),
      el('button', { class: 'small', 'aria-label': `Delete view ${view.name}`, onclick: () => this.run(async () => {
        await this.studio.api(`/api/clusters/views/${view.id}`, undefined, { method: 'DELETE' });
        await this.room.listMaps();
        this.close();
      }) }, '\u00d7')));
    return [...(kept.length ? kept : [el('p', { class: 'dim' }, 'None saved yet.')]), el('div', { class: 'line' }, name, el('button', { onclick: save }, 'Save'))];
  }
  async run(work) {
    try { await work(); } catch (error) { this.studio.toast(error.message, 'bad'); }
  }

  // Everything needed to see the same again: maps, epochs, cameras, colours, the selection by identity.
  state() {
    const { room } = this;
    return {
      panes: room.shown.map((p) => ({ key: p.map.key, time: p.plot.time, camera: { ...p.plot.camera } })),
      colour: room.colour, fit: room.fit, hidden: [...room.hidden].map(([column, names]) => [column, [...names]]),
      selected: room.pointsOf(room.shown[0]).map((i) => room.shown[0].map.ids[i]),
    };
  }
  async restore(state) {
    const { room } = this;
    this.close();
    const known = new Set(room.maps.filter((m) => m.ready).map((m) => m.key));
    if (!state.panes.every((p) => known.has(p.key))) throw new Error('A map of this view is no longer there. Draw it again.');
    Object.assign(room, { colour: state.colour, fit: state.fit, hidden: new Map(state.hidden.map(([c, n]) => [c, new Set(n)])) });
    room.recolour();
    await room.setSplit(state.panes.length > 1);
    for (const [i, { key, time, camera }] of state.panes.entries()) {
      await room.show(room.panes[i], key);
      room.panes[i].seek(time);
      Object.assign(room.panes[i].plot.camera, camera);
      room.panes[i].plot.redraw();
    }
    [room.active] = room.panes;
    const found = state.selected.map((id) => room.active.map.find(id)).filter((i) => i >= 0);
    if (found.length) room.select(room.active, found, false);
    else room.clear();
  }
}
