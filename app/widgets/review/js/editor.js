// The mask being drawn: tools, undo by stroke, and its overlay on the image.

import { inked, nearest, sampler } from './heat.js';
import { boxOf, componentAt, cut, paste, polygon, sides, stroke, within } from './shapes.js';

/** @typedef {import('./shapes.js').Box} Box */
/** @typedef {Pick<import('./layers.js').Layer, 'map' | 'cut' | 'level'>} Outlined a heat map and its outline */
/** @typedef {{box: Box, before: Uint8Array, after: Uint8Array, grown?: import('./segment.js').Grown}} Entry one step of
 *   the history: a part of the mask; grown: what the next click continues */
/** @typedef {{source: string, run?: string | null, threshold?: number}} Origin what the drawing started from;
 *   source: hand, run, or normal (areas called normal, not a lesion) */

const UNDO_BYTES = 256 * 1024 * 1024;

export class Editor {
  /** @param {() => void} changed called after every change of the drawing */
  constructor(changed) {
    this.changed = changed;
    /** @type {(step: boolean) => void} called when there is something new to store; step: a new step */
    this.kept = () => {};
    this.size = 24; // of the brush, in image pixels
    this.near = 10; // a click nearer to the first corner closes a polygon, in image pixels; set by paint.js
    /** @type {string | null} */
    this.tool = null;
    /** @type {Spot | null} */
    this.cursor = null;
    /** @type {((p: Spot, value: number) => void) | null} the action of the tools `take` and `click` at a spot */
    this.take = null;
    /** @type {{before: Uint8Array, last: Spot, value: number} | null} the stroke being drawn */
    this.active = null;
    this.w = 0;
    this.h = 0;
    /** @type {Uint8Array | null} 0 and 1, row by row; null while nothing is drawn */
    this.mask = null;
    this.canvas = document.createElement('canvas');
    /** @type {Entry[]} */
    this.history = [];
    /** @type {Entry[]} */
    this.future = [];
    /** @type {{a: Spot, b: Spot} | null} opposite corners of the box being dragged */
    this.frame = null;
    /** @type {(a: Spot, b: Spot) => void} the action for a dragged box */
    this.boxed = () => {};
    /** @type {Spot[]} corners of the polygon being drawn */
    this.points = [];
    /** @type {Origin | null} */
    this.origin = null;
    this.dirty = false;
  }

  close() {
    Object.assign(this, { mask: null, origin: null, dirty: false, history: [], future: [], points: [] });
    this.active = this.frame = null; // an unfinished stroke ends with its image
    this.canvas = document.createElement('canvas');
  }

  /** Starts from a mask (copied) or empty.
   * @param {number} w @param {number} h @param {Uint8Array | null} [mask] @param {Origin | null} [origin] */
  open(w, h, mask = null, origin = null) {
    this.close();
    Object.assign(this, { w, h, origin, mask: mask?.slice() || new Uint8Array(w * h) });
    Object.assign(this.canvas, { width: w, height: h });
    if (mask) this.tint(boxOf(mask, w, h));
  }

  /** Resumes a drawing where it was left. @param {import('./drafts.js').Drawing} drawing */
  reopen({ w, h, mask, ...rest }) {
    this.open(w, h, mask, rest.origin);
    Object.assign(this, rest);
    this.dirty = this.history.length > 0;
    this.changed();
  }

  /** Repaints a part of the mask. @param {Box | null} box */
  tint(box) {
    if (!box || !this.mask) return;
    const part = cut(this.mask, this.w, box);
    const ink = this.origin?.source === 'normal' ? 0x73e8b87d : 0x73a3d62f; // ABGR of a normal decision, of LINES.edit
    const image = inked(...sides(box), (i) => (part[i] ? ink : 0));
    this.canvas.getContext('2d')?.putImageData(image, box.x0, box.y0);
  }

  /** Runs a change as one step of the history; returns the step, or null if nothing changed.
   * @param {(mask: Uint8Array, w: number, h: number) => void} change */
  step(change) {
    if (!this.mask) return null;
    const before = this.mask.slice();
    change(this.mask, this.w, this.h);
    return this.commit(this.mask, before);
  }

  /** @param {Uint8Array} mask @param {Uint8Array} before the mask before the step */
  commit(mask, before) {
    const differs = mask.map((v, i) => v ^ before[i]);
    const box = boxOf(differs, this.w, this.h);
    if (!box) return null;
    /** @type {Entry} */
    const entry = { box, before: cut(before, this.w, box), after: cut(mask, this.w, box) };
    this.history.push(entry);
    this.future = [];
    let bytes = this.history.reduce((sum, e) => sum + 2 * e.before.length, 0);
    while (bytes > UNDO_BYTES && this.history.length > 1) bytes -= 2 * (this.history.shift()?.before.length || 0);
    this.dirty = true;
    this.tint(box);
    this.kept(true);
    this.changed();
    return entry;
  }

  undo() {
    return this.travel(this.history, this.future, 'before');
  }

  redo() {
    return this.travel(this.future, this.history, 'after');
  }

  /** @param {Entry[]} from @param {Entry[]} to @param {'before' | 'after'} which */
  travel(from, to, which) {
    if (!this.points.pop()) {
      const entry = from.pop();
      if (!entry || !this.mask) return false;
      paste(this.mask, this.w, entry.box, entry[which]);
      to.push(entry);
      this.dirty = this.history.length > 0;
      this.tint(entry.box);
    }
    this.kept(false);
    this.changed();
    return true;
  }

  /** @param {Spot} p @param {PointerEvent} [event] */
  down(p, event) {
    if (!this.mask) return;
    const value = this.tool === 'erase' || event?.altKey ? 0 : 1;
    if (this.tool === 'brush' || this.tool === 'erase') {
      this.active = { before: this.mask.slice(), last: p, value };
      this.move(p);
    } else if (this.tool === 'polygon') {
      const [first] = this.points;
      if (this.points.length > 2 && Math.hypot(first.x - p.x, first.y - p.y) < this.near) return this.finish(value);
      this.points.push(p);
      this.kept(false);
      this.changed();
    } else if (this.tool === 'box') this.frame = { a: p, b: p };
    else if (this.tool === 'take' || this.tool === 'click') this.take?.(p, event?.shiftKey ? 0 : value);
  }

  /** @param {Spot} p */
  move(p) {
    this.cursor = p;
    if (this.frame) this.frame.b = p;
    if (this.active && this.mask) {
      const { last, value } = this.active;
      this.active.last = p;
      this.tint(stroke(this.mask, this.w, this.h, last, p, this.size / 2, value));
    }
    this.changed();
  }

  up() {
    const { frame, active, mask } = this;
    this.frame = this.active = null;
    if (frame) this.boxed(frame.a, frame.b);
    if (active && mask) this.commit(mask, active.before);
  }

  finish(value = 1) {
    const points = this.points;
    this.points = [];
    if (points.length > 2) this.step((mask, w, h) => polygon(mask, w, h, points, value));
    this.changed();
  }

  /** Adds the heat map's component under p, at its threshold. False if the map is below it there.
   * @param {Outlined} layer @param {Spot} p */
  takeComponent(layer, p) {
    const { w, h } = layer.cut;
    const found = componentAt(layer.cut, layer.level, Math.floor((p.x * w) / this.w), Math.floor((p.y * h) / this.h));
    if (found) this.step((mask) => fillComponent(mask, this.w, this.h, layer, found));
    return Boolean(found);
  }
}

/** Sets the pixels at or above the threshold that lie on a component found on the grid, or within one cell of it.
 * @param {Uint8Array} mask of an image, changed @param {number} w @param {number} h @param {Outlined} layer
 * @param {{inside: Uint8Array, box: Box}} component its cells on the grid */
export function fillComponent(mask, w, h, { map, cut: field, level }, { inside, box }) {
  const sx = field.w / w;
  const sy = field.h / h;
  const near = (/** @type {number} */ gx, /** @type {number} */ gy) => {
    for (let y = Math.max(gy - 1, 0); y <= Math.min(gy + 1, field.h - 1); y += 1)
      for (let x = Math.max(gx - 1, 0); x <= Math.min(gx + 1, field.w - 1); x += 1)
        if (inside[y * field.w + x]) return true;
    return false;
  };
  const touched = within((box.x0 - 1) / sx, (box.y0 - 1) / sy, (box.x1 + 2) / sx, (box.y1 + 2) / sy, w, h);
  if (!touched) return;
  const row = new Float32Array(w);
  const fillRow = sampler(map, w, h);
  const [columns, rows] = [nearest(w, field.w), nearest(h, field.h)];
  for (let y = touched.y0; y <= touched.y1; y += 1) {
    fillRow(y, row);
    for (let x = touched.x0; x <= touched.x1; x += 1)
      if (row[x] >= level && near(columns[x], rows[y])) mask[y * w + x] = 1;
  }
}
