// The cluster browser: panes, the one selection they share, colours, and what is shown beside the maps.
import { Detail } from './detail.js';
import { Form } from './form.js';
import { Gallery } from './gallery.js';
import { Legend } from './legend.js';
import { titleOf } from './model.js';
import { Numbers } from './numbers.js';
import { Pane } from './pane.js';
import { css } from './palette.js';

const TOOLS = { v: 'pan', b: 'box', l: 'lasso' };

export class Room {
  constructor(root, studio) {
    Object.assign(this, { root, studio, tool: 'pan', colour: 'class', hidden: new Map(), maps: [], fit: null });
    this.$ = (s) => root.querySelector(s);
    this.form = new Form(this.$('.draw'), studio, { asked: (key, ready) => this.asked(key, ready) });
    this.legend = new Legend(this.$('.legend'), studio, this);
    this.numbers = new Numbers(this.$('.numbers'), studio);
    this.detail = new Detail(this.$('.detail'), studio, this);
    this.gallery = new Gallery(this.$('.detail'), studio, this);
    this.panes = [new Pane(this, 0), new Pane(this, 1)];
    this.active = this.panes[0];
    this.panes[1].root.hidden = true;
    this.$('.stage').append(...this.panes.map((p) => p.root));
    this.$('.tools').onclick = (event) => event.target.dataset.tool && this.setTool(event.target.dataset.tool);
    this.$('.fit-view').onclick = () => this.shown.forEach((p) => p.plot.fit());
    this.$('.marks').onclick = () => this.toggleMarks();
    this.$('.split').onclick = () => this.setSplit(this.panes[1].root.hidden);
    this.$('.clear').onclick = () => this.clear();
    this.$('.isolate').onclick = () => this.isolate();
  }

  get shown() { return this.panes.filter((p) => !p.root.hidden && p.map); }

  // Studies and maps ---------------------------------------------------------------------------
  async open(study) {
    this.study = study;
    this.panes.forEach((p) => { p.map = p.plot.map = null; p.plot.visible = null; p.plot.redraw(); });
    this.setSplit(false);
    this.active = this.panes[0];
    if (study) await Promise.all([this.form.load(study), this.listMaps()]);
    if (study !== this.study) return;
    const first = this.maps.find((m) => m.ready);
    if (first) await this.show(this.panes[0], first.key);
    else this.aside();
  }

  async listMaps() {
    const { study } = this;
    const { maps } = await this.studio.api(`/api/clusters/maps?study=${encodeURIComponent(study)}`);
    if (study !== this.study) return;
    this.maps = maps;
    const ready = maps.filter((m) => m.ready);
    for (const pane of this.panes) {
      pane.pick.replaceChildren(...ready.map((m) => this.studio.el('option', { value: m.key }, titleOf(m))));
      if (pane.map) pane.pick.value = pane.map.key;
    }
    const waiting = maps.find((m) => !m.ready && ['queued', 'running'].includes(m.job_status));
    this.form.progress(waiting);
    this.watch(Boolean(waiting));
    const failed = maps.find((m) => m.key === this.wanted && !m.ready && m.job_status === 'failed');
    if (failed) { this.wanted = null; this.studio.toast(failed.message || 'The map could not be drawn.', 'bad'); }
    if (this.wanted && ready.some((m) => m.key === this.wanted)) {
      const key = this.wanted;
      this.wanted = null;
      await this.show(this.active, key);
    }
    this.emptiness();
  }
  watch(on) {
    clearTimeout(this.timer);
    if (on) this.timer = setTimeout(() => this.listMaps().catch(() => this.watch(true)), 700);
  }
  async asked(key, ready) {
    this.wanted = key;
    await this.listMaps();
    if (ready) this.form.progress(null);
  }

  async show(pane, key) {
    try {
      if (!(await pane.open(key))) return;
    } catch (error) {
      this.studio.toast(error.message, 'bad');
      return;
    }
    this.active = pane;
    this.fit = pane.fit;
    this.share(pane);
    this.emptiness();
    this.aside();
  }
  emptiness() {
    const none = !this.panes[0].map;
    this.$('.nothing').hidden = !none;
    this.$('.stage').hidden = none;
    this.$('.bar').hidden = none;
    if (!none) return;
    const ready = this.form.runs.length;
    this.$('.nothing h2').textContent = !this.study ? 'No study yet' : ready ? 'No map yet' : 'No encoder yet';
    this.$('.nothing p').textContent = !this.study ? 'Import one in the Study tab.'
      : ready ? 'Choose an encoder and a method on the left, then draw the map: every point is an image, as the encoder sees it.'
        : 'Train an encoder in the Training tab. Its first snapshot can be mapped while the training goes on.';
  }

  // Beside the maps -----------------------------------------------------------------------------
  aside() {
    const pane = this.active.map ? this.active : this.panes[0];
    this.legend.render(pane);
    this.numbers.render(pane);
    this.side(pane);
  }
  side(pane) {
    const points = pane.map ? this.pointsOf(pane) : [];
    this.$('.clear').disabled = !points.length && !pane.plot.only;
    this.$('.isolate').disabled = !points.length;
    if (points.length > 1) this.gallery.render(pane, points);
    else if (pane.plot.focus >= 0) this.detail.show(pane, pane.plot.focus).catch((e) => this.studio.toast(e.message, 'bad'));
    else this.detail.blank(pane.map);
  }
  activate(pane) {
    if (this.active === pane) return;
    this.active = pane;
    this.legend.render(pane);
    this.numbers.render(pane);
  }
  epochChanged(pane, still) {
    if (this.active === pane) this.numbers.render(pane);
    if (!still && this.active === pane && pane.plot.focus >= 0 && this.pointsOf(pane).length < 2) this.side(pane);
  }

  // Selection: one for both panes, by the identity of the points --------------------------------
  pointsOf(pane) {
    const out = [];
    pane.plot.selected?.forEach((v, i) => v && out.push(i));
    return out;
  }
  click(pane, i, add) {
    if (i < 0) { this.clear(); return; }
    if (add) {
      const points = new Set(this.pointsOf(pane));
      if (!points.delete(i)) points.add(i);
      this.select(pane, [...points], false);
    } else this.focus(pane, i);
  }
  focus(pane, i) {
    this.active = pane;
    const id = pane.map.ids[i];
    for (const p of this.shown) {
      p.plot.focus = p === pane ? i : p.map.find(id);
      p.plot.neighbours = [];
      if (this.pointsOf(p).length < 2) p.plot.setSelected(new Uint8Array(p.map.n));
      p.plot.redraw();
    }
    this.detail.show(pane, i).catch((e) => this.studio.toast(e.message, 'bad'));
    this.legend.render(pane);
    this.numbers.render(pane);
  }
  select(pane, found, add) {
    const selected = add ? pane.plot.selected.slice() : new Uint8Array(pane.map.n);
    for (const i of found) selected[i] = 1;
    pane.plot.focus = -1;
    pane.plot.neighbours = [];
    pane.plot.setSelected(selected);
    this.active = pane;
    this.share(pane);
    this.aside();
  }
  // What is selected in one pane is selected in the other.
  share(pane) {
    for (const other of this.shown) {
      if (other === pane) continue;
      const selected = new Uint8Array(other.map.n);
      for (const i of this.pointsOf(pane)) {
        const j = other.map.find(pane.map.ids[i]);
        if (j >= 0) selected[j] = 1;
      }
      other.plot.focus = pane.plot.focus >= 0 ? other.map.find(pane.map.ids[pane.plot.focus]) : -1;
      other.plot.neighbours = [];
      other.plot.setSelected(selected);
    }
  }
  clear() {
    for (const p of this.shown) {
      Object.assign(p.plot, { focus: -1, neighbours: [], only: null });
      p.plot.setSelected(new Uint8Array(p.map.n));
      p.recolour();
    }
    this.aside();
  }
  isolate() {
    for (const p of this.shown) {
      p.plot.only = p.plot.selected.slice();
      p.recolour();
    }
  }
  flash(pane, i) {
    for (const p of this.shown) {
      p.plot.hover = i < 0 ? -1 : p === pane ? i : p.map.find(pane.map.ids[i]);
      p.plot.redraw(false);
    }
  }

  // Colours ---------------------------------------------------------------------------------------
  colourBy(name) { this.colour = name; this.recolour(); }
  recolour() { this.shown.forEach((p) => p.recolour()); this.legend.render(this.active); this.side(this.active); }
  async scoresOf(fit) {
    this.fit = fit;
    await Promise.all(this.shown.map((p) => p.refreshColumns(fit)));
    this.recolour();
  }
  toggle(column, name) {
    const off = this.hidden.get(column) || new Set();
    if (!off.delete(name)) off.add(name);
    this.hidden.set(column, off);
    this.recolour();
  }
  alone(column, name, names) {
    const off = this.hidden.get(column) || new Set();
    const already = names.every((n) => off.has(n) === (n !== name));
    this.hidden.set(column, already ? new Set() : new Set(names.filter((n) => n !== name)));
    this.recolour();
  }
  colourOf(pane, i) { return css(pane.plot.colours[i]); }
  colourCss(pane, code) { return css(pane.plot.colouring.table[code]); }

  // Tools -----------------------------------------------------------------------------------------
  setTool(tool) {
    this.tool = tool;
    this.root.querySelectorAll('[data-tool]').forEach((b) => b.setAttribute('aria-pressed', String(b.dataset.tool === tool)));
    this.$('.stage').dataset.tool = tool;
  }
  toggleMarks() {
    const on = this.$('.marks').getAttribute('aria-pressed') !== 'true';
    this.$('.marks').setAttribute('aria-pressed', String(on));
    this.panes.forEach((p) => { p.plot.marks = on; p.plot.redraw(false); });
  }
  setSplit(on) {
    this.panes[1].root.hidden = !on;
    this.$('.split').setAttribute('aria-pressed', String(on));
    if (!on) { this.panes[1].stop(); this.active = this.panes[0]; }
    else if (this.panes[0].map) {
      const ready = this.maps.filter((m) => m.ready);
      const other = ready.find((m) => m.key !== this.panes[0].map.key) || ready[0];
      this.show(this.panes[1], other.key).then(() => { this.active = this.panes[0]; this.share(this.panes[0]); this.aside(); });
    }
  }
  key(key) {
    if (key === 'Escape') return () => this.clear();
    return TOOLS[key] && (() => this.setTool(TOOLS[key]));
  }
  tip(pane, i, x, y) {
    const tip = this.$('.tip');
    tip.hidden = i < 0;
    if (i < 0) return;
    const src = pane.map.thumb(i);
    const image = tip.querySelector('img');
    if (image.getAttribute('src') !== src) image.setAttribute('src', src);
    const { column } = pane;
    const value = column.codes ? column.names[column.codes[i]] : column.values[i] == null ? 'not scored' : column.values[i].toPrecision(4);
    tip.querySelector('span').textContent = value === '\u2013' ? `no ${column.title.toLowerCase()}` : value;
    const [box, room] = [pane.host.getBoundingClientRect(), this.root.getBoundingClientRect()];
    const left = box.left - room.left + x;
    tip.style.left = `${left + (left + 150 > room.width ? -126 : 18)}px`;
    tip.style.top = `${Math.min(Math.max(box.top - room.top + y - 40, 0), room.height - 140)}px`;
  }
  openReview(id) {
    this.studio.address({ tab: 'review', case: id });
    this.studio.emit('case', id);
    this.studio.openTab('review');
  }
}
