// What the panes share: the selection (by the identity of the points), the colours, and what is shown beside the maps.
import { toast } from '../../../static/dialogs.js';
import { finder } from '../../../static/dom.js';
import { css } from './palette.js';

/** @typedef {import('./pane.js').Pane} Pane */

/** Stands for a part that ClusterView puts in place. @type {any} */
const later = null;

export class Selecting {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.$ = finder(root);
    this.colour = 'class'; // what the points are coloured by
    /** @type {string | null} the run whose scores can colour them */
    this.fit = null;
    /** @type {Map<string, Set<string>>} column -> classes that are switched off */
    this.hidden = new Map();
    /** @type {Pane[]} */
    this.panes = [];
    /** @type {Pane} the pane that was used last */
    this.active = later;
    /** @type {import('./legend.js').Legend} */
    this.legend = later;
    /** @type {import('./numbers.js').Numbers} */
    this.numbers = later;
    /** @type {import('./detail.js').Detail} */
    this.detail = later;
    /** @type {import('./gallery.js').Gallery} */
    this.gallery = later;
    /** @type {import('./projecting.js').Projecting} */
    this.projecting = later;
  }

  /** The panes that show a map. */
  get shown() {
    return this.panes.filter((p) => !p.root.hidden && p.map);
  }

  // Beside the maps -----------------------------------------------------------------------------
  aside() {
    const pane = this.active.map ? this.active : this.panes[0];
    this.legend.render(pane);
    this.numbers.render(pane);
    this.projecting.render();
    this.side(pane);
  }
  /** @param {Pane} pane */
  side(pane) {
    const points = pane.map ? this.pointsOf(pane) : [];
    this.$('.clear').disabled = !points.length && !pane.plot.only;
    this.$('.isolate').disabled = !points.length;
    if (points.length > 1) this.gallery.render(pane, points);
    else if (pane.plot.focus >= 0) this.detail.show(pane, pane.plot.focus).catch((e) => toast(e.message, 'bad'));
    else this.detail.blank(pane.map);
  }
  /** @param {Pane} pane */
  activate(pane) {
    if (this.active === pane) return;
    this.active = pane;
    this.legend.render(pane);
    this.numbers.render(pane);
    this.projecting.render();
  }
  /** @param {Pane} pane @param {boolean} still whether it moves on at once */
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
    this.detail.show(pane, i).catch((e) => toast(e.message, 'bad'));
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
  // What is selected in one pane is selected in the other.
  /** @param {Pane} pane */
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
