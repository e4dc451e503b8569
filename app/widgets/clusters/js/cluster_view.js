// The cluster browser: the study's maps, its panes and tools, and the state that the panes share: the selection (by the
// identity of the points), the colours, and the panels next to the maps.
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { fill, finder, finderOfAll, options } from '../../../static/dom.js';
import { underWay } from '../../../static/plan.js';
import { Detail } from './detail.js';
import { Gallery } from './gallery.js';
import { Legend } from './legend.js';
import { MapForm } from './map_form.js';
import { Menus } from './menus.js';
import { titleOf } from './model.js';
import { Numbers } from './numbers.js';
import { css } from './palette.js';
import { Pane, showTip } from './pane.js';
import { Projecting } from './projecting.js';

/** @type {Record<string, string>} */
const TOOLS = { 1: 'pan', 2: 'box', 3: 'lasso' };

const NOTHING = {
  study: ['No study yet', 'Import one in the Study tab.'],
  waiting: ['A map is being drawn', 'It opens here automatically.'],
  map: [
    'No map yet',
    'Choose an encoder and a method on the left, then draw the map. Every point is an image in feature space.',
  ],
  encoder: ['No encoder yet', 'Train an encoder in the Training tab. Its snapshots can be mapped during the training.'],
};

/** Marks the points of a pane's map, by their identity. @param {Pane} pane @param {number[]} ids */
function marked(pane, ids) {
  const selected = new Uint8Array(pane.map.n);
  for (const i of ids.map((id) => pane.map.find(id))) if (i >= 0) selected[i] = 1;
  return selected;
}

export class ClusterView {
  /** @param {HTMLElement} root @param {Page.Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.$ = finder(root);
    this.colour = 'class'; // the column that colours the points
    /** @type {string | null} the run whose scores can colour them */
    this.fit = null;
    /** @type {Map<string, Set<string>>} column -> classes that are switched off */
    this.hidden = new Map();
    this.studio = studio;
    /** @type {string | null} */
    this.study = null;
    this.tool = 'pan';
    /** @type {Answers.MapRow[]} */
    this.maps = [];
    /** @type {string | null} the map that was requested here and is not ready yet */
    this.wanted = null;
    this.opening = false;
    this.refusal = ''; // why nothing of the study is shown
    this.waiting = false; // a map is being drawn
    this.panes = [new Pane(this, 0), new Pane(this, 1)];
    this.active = this.panes[0];
    this.panes[1].root.hidden = true;
    this.$('.stage').append(...this.panes.map((p) => p.root));
    this.legend = new Legend(this.$('.legend'), this);
    this.numbers = new Numbers(this.$('.numbers'));
    this.detail = new Detail(this.$('.detail'), this);
    this.gallery = new Gallery(this.$('.detail'), this);
    this.form = new MapForm(this.$('.draw'), (key, ready) => this.asked(key, ready));
    this.menus = new Menus(root, this);
    this.projecting = new Projecting(this.$('.place'), this);
    this.$('.tools').onclick = (/** @type {any} */ event) =>
      event.target.dataset.tool && this.setTool(event.target.dataset.tool);
    this.$('.fit-view').onclick = () => this.shown.forEach((p) => p.plot.fit());
    this.$('.marks').onclick = () => this.toggleMarks();
    this.$('.split').onclick = () => this.setSplit(Boolean(this.panes[1].root.hidden));
    this.$('.clear').onclick = () => this.clear();
    this.$('.isolate').onclick = () => this.isolate();
  }

  // Studies and maps ---------------------------------------------------------------------------
  /** @param {string | null} study */
  async open(study) {
    this.study = study;
    this.opening = Boolean(study); // nothing is reported missing before it has been fetched
    this.refusal = '';
    for (const pane of this.panes) pane.blank();
    this.setSplit(false);
    this.active = this.panes[0];
    try {
      if (study) await Promise.all([this.form.load(study), this.listMaps()]);
      if (study !== this.study) return;
      const first = this.maps.find((m) => m.ready);
      if (first) await this.show(this.panes[0], first.key);
    } catch (error) {
      if (study === this.study) this.refusal = error.message;
    } finally {
      if (study === this.study) {
        this.opening = false;
        this.emptiness();
        this.aside();
      }
    }
  }

  async listMaps() {
    const { study } = this;
    if (!study) return;
    const { maps, views } = await api(`/api/clusters/maps?study=${encodeURIComponent(study)}`);
    if (study !== this.study) return;
    this.menus.views = views;
    this.maps = maps;
    const ready = maps.filter((m) => m.ready);
    for (const pane of this.panes) {
      fill(pane.pick, options(ready.map((m) => [m.key, titleOf({ ...m, count: m.points })])));
      if (pane.map) pane.pick.value = pane.map.key;
    }
    const waiting = maps.find((m) => !m.ready && underWay(m.job_status));
    this.form.progress(waiting);
    this.waiting = Boolean(waiting);
    const failed = maps.find((m) => m.key === this.wanted && !m.ready && m.job_status === 'failed');
    if (failed) {
      this.wanted = null;
      toast(failed.message || 'The map could not be drawn.', 'bad');
    }
    // The map requested here; else, if none is open, one that became ready meanwhile.
    const come = ready.find((m) => m.key === this.wanted) || (!this.panes[0].map && !this.opening && ready[0]);
    if (come) {
      if (come.key === this.wanted) this.wanted = null;
      await this.show(this.active, come.key);
    }
    this.emptiness();
  }
  /** @param {string} key @param {boolean} ready */
  async asked(key, ready) {
    this.wanted = key;
    await this.listMaps();
    if (ready) this.form.progress(null);
  }

  // Opens a map; the selection, made here or in the other pane, stays.
  /** @param {Pane} pane @param {string} key */
  async show(pane, key) {
    const from = this.shown.find((p) => p !== pane) || this.shown[0];
    const ids = from ? this.pointsOf(from).map((i) => from.map.ids[i]) : [];
    const focus = from && from.plot.focus >= 0 ? from.map.ids[from.plot.focus] : null;
    if (!(await orToast(pane.open(key)))) return;
    pane.plot.focus = focus == null ? -1 : pane.map.find(focus);
    pane.plot.setSelected(marked(pane, ids));
    this.active = pane;
    this.fit = pane.fit;
    this.emptiness();
    this.aside();
  }
  // Reloads the same map after images were placed on it or removed: camera, epoch and selection stay.
  /** @param {Pane} pane */
  async again(pane) {
    const { time } = pane.plot;
    const selected = this.pointsOf(pane).map((i) => pane.map.ids[i]);
    if (!(await pane.open(pane.map.key))) return;
    pane.plot.setSelected(marked(pane, selected));
    pane.seek(time);
    if (pane === this.active) this.aside();
  }
  emptiness() {
    const none = !this.panes[0].map && !this.opening;
    this.$('.nothing').hidden = !none;
    this.$('.stage').hidden = none;
    this.$('.bar').hidden = none;
    if (!none) return;
    const ready = this.form.runs.length;
    const kind = !this.study ? 'study' : this.waiting ? 'waiting' : ready ? 'map' : 'encoder';
    [this.$('.nothing h2').textContent, this.$('.nothing p').textContent] = this.refusal
      ? ['No map is shown', this.refusal]
      : NOTHING[kind];
  }

  // Tools -----------------------------------------------------------------------------------------
  /** @param {string} tool */
  setTool(tool) {
    this.tool = tool;
    for (const b of finderOfAll(this.root)('[data-tool]'))
      b.setAttribute('aria-pressed', String(b.dataset.tool === tool));
    this.$('.stage').dataset.tool = tool;
  }
  toggleMarks() {
    const on = this.$('.marks').getAttribute('aria-pressed') !== 'true';
    this.$('.marks').setAttribute('aria-pressed', String(on));
    this.panes.forEach((p) => {
      p.plot.marks = on;
      p.plot.redraw(false);
    });
  }
  /** @param {boolean} on whether to show two maps */
  setSplit(on) {
    this.panes[1].root.hidden = !on;
    this.$('.split').setAttribute('aria-pressed', String(on));
    if (!on) {
      this.panes[1].stop();
      this.active = this.panes[0];
    } else if (this.panes[0].map) {
      const ready = this.maps.filter((m) => m.ready);
      const other = ready.find((m) => m.key !== this.panes[0].map.key) || ready[0];
      return this.show(this.panes[1], other.key).then(() => {
        this.active = this.panes[0];
        this.aside();
      });
    }
  }
  /** @param {string} key */
  key(key) {
    if (key === 'Escape') return () => this.clear();
    return TOOLS[key] ? () => this.setTool(TOOLS[key]) : null;
  }
  /** @param {Pane} pane @param {number} i @param {number} [x] @param {number} [y] */
  tip(pane, i, x = 0, y = 0) {
    showTip(this.$('.tip'), this.root, pane, i, x, y);
  }

  /** The panes that show a map. */
  get shown() {
    return this.panes.filter((p) => !p.root.hidden && p.map);
  }

  // Panels next to the maps -----------------------------------------------------------------------------
  aside() {
    const pane = this.active.map ? this.active : this.panes[0];
    this.beside(pane);
    this.side(pane);
  }
  /** @param {Pane} pane */
  beside(pane) {
    this.legend.render(pane);
    this.numbers.render(pane);
    this.projecting.render();
  }
  /** @param {Pane} pane */
  side(pane) {
    const points = pane.map ? this.pointsOf(pane) : [];
    this.$('.clear').disabled = !points.length && !pane.plot.only;
    this.$('.isolate').disabled = !points.length;
    if (points.length > 1) this.gallery.render(pane, points);
    else if (pane.plot.focus >= 0) orToast(this.detail.show(pane, pane.plot.focus));
    else this.detail.blank(pane.map);
  }
  /** @param {Pane} pane */
  activate(pane) {
    if (this.active === pane) return;
    this.active = pane;
    this.beside(pane);
  }
  /** @param {Pane} pane @param {boolean} still whether it will move on immediately */
  epochChanged(pane, still) {
    if (this.active === pane) this.numbers.render(pane);
    if (!still && this.active === pane && pane.plot.focus >= 0 && this.pointsOf(pane).length < 2) this.side(pane);
  }

  // Selection: one for both panes, by the identity of the points --------------------------------
  /** @param {Pane} pane @returns {number[]} */
  pointsOf(pane) {
    /** @type {number[]} */
    const out = [];
    pane.plot.selected?.forEach((v, i) => v && out.push(i));
    return out;
  }
  /** @param {Pane} pane @param {number} i @param {boolean} add */
  click(pane, i, add) {
    if (i < 0) {
      this.clear();
      return;
    }
    if (add) {
      const points = new Set(this.pointsOf(pane));
      if (!points.delete(i)) points.add(i);
      this.select(pane, [...points], false);
    } else this.focus(pane, i);
  }
  /** @param {Pane} pane @param {number} i */
  focus(pane, i) {
    this.active = pane;
    const id = pane.map.ids[i];
    for (const p of this.shown) {
      p.plot.focus = p === pane ? i : p.map.find(id);
      p.plot.neighbours = [];
      if (this.pointsOf(p).length < 2) p.plot.setSelected(new Uint8Array(p.map.n));
      p.plot.redraw();
    }
    orToast(this.detail.show(pane, i));
    this.legend.render(pane);
    this.numbers.render(pane);
  }
  /** @param {Pane} pane @param {number[]} found @param {boolean} add */
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
  // A selection in one pane applies to the other.
  /** @param {Pane} pane */
  share(pane) {
    const ids = this.pointsOf(pane).map((i) => pane.map.ids[i]);
    for (const other of this.shown) {
      if (other === pane) continue;
      other.plot.focus = pane.plot.focus >= 0 ? other.map.find(pane.map.ids[pane.plot.focus]) : -1;
      other.plot.neighbours = [];
      other.plot.setSelected(marked(other, ids));
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
  /** @param {Pane} pane @param {number} i */
  flash(pane, i) {
    for (const p of this.shown) {
      p.plot.hover = i < 0 ? -1 : p === pane ? i : p.map.find(pane.map.ids[i]);
      p.plot.redraw(false);
    }
  }

  // Colours ---------------------------------------------------------------------------------------
  /** @param {string} name of a column */
  colourBy(name) {
    this.colour = name;
    this.recolour();
  }
  recolour() {
    this.shown.forEach((p) => p.recolour());
    this.legend.render(this.active);
    this.side(this.active);
  }
  /** @param {string} fit */
  async scoresOf(fit) {
    this.fit = fit;
    await Promise.all(this.shown.map((p) => p.refreshColumns(fit)));
    this.recolour();
  }
  /** @param {string} column @param {string} name */
  toggle(column, name) {
    const off = this.hidden.get(column) || new Set();
    if (!off.delete(name)) off.add(name);
    this.hidden.set(column, off);
    this.recolour();
  }
  /** @param {string} column @param {string} name @param {string[]} names */
  alone(column, name, names) {
    const off = this.hidden.get(column) || new Set();
    const already = names.every((n) => off.has(n) === (n !== name));
    this.hidden.set(column, already ? new Set() : new Set(names.filter((n) => n !== name)));
    this.recolour();
  }
  /** @param {Pane} pane @param {number} i */
  colourOf(pane, i) {
    return css(pane.plot.colours[i]);
  }
  /** @param {Pane} pane @param {number} code */
  colourCss(pane, code) {
    return css(pane.plot.colouring?.table?.[code] ?? 0);
  }
}
