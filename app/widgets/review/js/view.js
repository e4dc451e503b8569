// One transform for all panes: a pixel (u, v) of the displayed picture is at (u * scale + dx,
// v * scale + dy) CSS pixels of a pane.

import { clamp } from '../../../static/format.js';

/** @typedef {{px: number, py: number}} Place in CSS pixels of a pane */

export class View {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.scale = 1;
    this.dx = 0;
    this.dy = 0;
    this.image = { w: 1, h: 1 };
    this.pane = { w: 1, h: 1 };
    this.fitted = true;
    this.turn = UPRIGHT;
  }

  /** Returns the displayed size of the image. */
  get seen() {
    return seenSize(this.turn, this.image);
  }

  /** Flips or turns the view around its centre. @param {(turn: Turn) => typeof UPRIGHT} how */
  reorient(how) {
    this.around(() => (this.turn = how(this.turn)));
  }

  /** Changes the view around its centre. @param {() => unknown} change */
  around(change) {
    const middle = this.toImage(this.pane.w / 2, this.pane.h / 2);
    change();
    if (this.fitted) this.fit();
    else this.centre(middle);
  }

  /** Shows the whole image, in its stored orientation. */
  reset() {
    this.turn = UPRIGHT;
    this.fit();
  }

  /** @param {number} w @param {number} h */
  setImage(w, h) {
    const same = this.image.w === w && this.image.h === h;
    this.image = { w, h };
    if (!same || this.fitted) this.fit();
  }

  /** @param {number} w @param {number} h */
  setPane(w, h) {
    if (this.pane.w === w && this.pane.h === h) return;
    this.around(() => (this.pane = { w, h }));
  }

  fit() {
    const { seen, pane } = this;
    this.scale = Math.min(pane.w / seen.w, pane.h / seen.h);
    this.dx = (pane.w - seen.w * this.scale) / 2;
    this.dy = (pane.h - seen.h * this.scale) / 2;
    this.fitted = true;
    this.changed();
  }

  oneToOne() {
    this.around(() => {
      this.scale = 1 / (window.devicePixelRatio || 1);
      this.fitted = false;
    });
  }

  /** @param {Spot} spot */
  centre(spot) {
    const { x, y } = toSeen(this.turn, this.image, spot);
    this.dx = this.pane.w / 2 - x * this.scale;
    this.dy = this.pane.h / 2 - y * this.scale;
    this.keep();
  }

  /** @param {number} px @param {number} py @param {number} factor */
  zoomAt(px, py, factor) {
    const { scale, seen } = this;
    const least = 0.5 * Math.min(this.pane.w / seen.w, this.pane.h / seen.h);
    this.scale = clamp(scale * factor, Math.min(least, 1), 40);
    this.dx = px - ((px - this.dx) / scale) * this.scale;
    this.dy = py - ((py - this.dy) / scale) * this.scale;
    this.fitted = false;
    this.keep();
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.dx += dx;
    this.dy += dy;
    this.fitted = false;
    this.keep();
  }

  // Part of the image always stays visible.
  keep() {
    const margin = 40;
    const { w, h } = this.seen;
    this.dx = clamp(this.dx, margin - w * this.scale, this.pane.w - margin);
    this.dy = clamp(this.dy, margin - h * this.scale, this.pane.h - margin);
    this.changed();
  }

  /** @param {number} px @param {number} py @returns {Spot} */
  toImage(px, py) {
    const seen = { x: (px - this.dx) / this.scale, y: (py - this.dy) / this.scale };
    return fromSeen(this.turn, this.image, seen);
  }
}

/** @typedef {{down: (p: Spot, event?: PointerEvent) => void, move: (p: Spot) => void, up: () => void}} Tool */

/** Wheel zooms, drag pans, two fingers pinch, the right button changes window and level. The left
 * button goes to the active tool, in image pixels.
 * @param {HTMLCanvasElement} canvas @param {View} view @param {{tool: () => Tool | null, windowing: (dx: number, dy:
 * number) => void, hover: (p: Spot | null) => void}} on */
export function gestures(canvas, view, { tool, windowing, hover }) {
  /** @type {Map<number, Place>} */
  const fingers = new Map();
  /** @type {'tool' | 'pinch' | 'window' | 'pan' | null} */
  let mode = null;
  let last = { px: 0, py: 0 };
  const spot = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { px: event.clientX - box.left, py: event.clientY - box.top };
  };
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const { px, py } = spot(event);
      view.zoomAt(px, py, Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)));
    },
    { passive: false },
  );
  canvas.addEventListener('contextmenu', (event) => event.preventDefault());
  canvas.addEventListener('dblclick', () => tool() || view.fit());
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    const p = spot(event);
    fingers.set(event.pointerId, p);
    last = p;
    if (fingers.size === 2) {
      if (mode === 'tool') tool()?.up();
      mode = 'pinch';
    } else if (event.button === 2) mode = 'window';
    else if (event.button === 1 || !tool()) mode = 'pan';
    else {
      mode = 'tool';
      tool()?.down(view.toImage(p.px, p.py), event);
    }
    event.preventDefault();
  });
  canvas.addEventListener('pointermove', (event) => {
    const p = spot(event);
    hover(view.toImage(p.px, p.py));
    const before = fingers.get(event.pointerId);
    if (!before) return;
    if (mode === 'pinch' && fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1] || before;
      const was = Math.hypot(before.px - other.px, before.py - other.py);
      const now = Math.hypot(p.px - other.px, p.py - other.py);
      view.pan((p.px - before.px) / 2, (p.py - before.py) / 2);
      if (was > 5) view.zoomAt((p.px + other.px) / 2, (p.py + other.py) / 2, now / was);
    } else if (mode === 'pan') view.pan(p.px - last.px, p.py - last.py);
    else if (mode === 'window') windowing(p.px - last.px, p.py - last.py);
    else if (mode === 'tool') tool()?.move(view.toImage(p.px, p.py));
    fingers.set(event.pointerId, p);
    last = p;
  });
  const end = (/** @type {PointerEvent} */ event) => {
    if (!fingers.delete(event.pointerId)) return;
    if (mode === 'tool') tool()?.up();
    mode = null;
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', () => hover(null));
}

// The image's orientation in the view: flipped, turned by right angles. It affects only the view: masks, findings and
// lengths stay in the image's own frame.
/**
 * A point (x, y) of the image is at (a x + c y + e, b x + d y + f) of the displayed picture; e and f keep the
 * picture's corner at (0, 0). One of a, c is 0, and one of b, d.
 * @typedef {{a: number, b: number, c: number, d: number}} Turn
 */

/** @type {Turn} */
export const UPRIGHT = { a: 1, b: 0, c: 0, d: 1 };

/** The operations on the displayed picture: the new x and y. @type {Record<string, (turn: Turn) => Turn>} */
export const TURNS = {
  across: ({ a, b, c, d }) => ({ a: 0 - a, b, c: 0 - c, d }), // subtracted, for -0 would not be the same as 0
  down: ({ a, b, c, d }) => ({ a, b: 0 - b, c, d: 0 - d }),
  right: ({ a, b, c, d }) => ({ a: 0 - b, b: a, c: 0 - d, d: c }),
};

/** The displayed size of a picture of w x h. @param {Turn} turn @param {{w: number, h: number}} image */
export const seenSize = ({ a }, { w, h }) => (a ? { w, h } : { w: h, h: w });

/** @param {Turn} turn @param {{w: number, h: number}} image */
function shift({ a, b, c, d }, { w, h }) {
  return { e: (a < 0 ? w : 0) + (c < 0 ? h : 0), f: (b < 0 ? w : 0) + (d < 0 ? h : 0) };
}

/** Converts a point of the image to the displayed picture. @param {Turn} turn @param {{w: number, h: number}} image
 * @param {Spot} p */
export function toSeen(turn, image, { x, y }) {
  const { e, f } = shift(turn, image);
  return { x: turn.a * x + turn.c * y + e, y: turn.b * x + turn.d * y + f };
}

/** Converts a point p of the displayed picture to the image. @param {Turn} turn
 * @param {{w: number, h: number}} image @param {Spot} p @returns {Spot} */
export function fromSeen(turn, image, p) {
  const { e, f } = shift(turn, image);
  const [u, v] = [p.x - e, p.y - f];
  return { x: turn.a * u + turn.b * v, y: turn.c * u + turn.d * v };
}

/** Returns the canvas's transform for an image in pixel units.
 * @param {{scale: number, dx: number, dy: number, turn?: Turn}} view @param {{w: number, h: number}} image @param
 * {number} ratio pixels of the canvas in a CSS pixel @returns {[number, number, number, number, number, number]} */
export function matrix({ scale, dx, dy, turn = UPRIGHT }, image, ratio) {
  const s = scale * ratio;
  const { e, f } = shift(turn, image);
  return [s * turn.a, s * turn.b, s * turn.c, s * turn.d, s * e + dx * ratio, s * f + dy * ratio];
}

/** Returns the orientation in a few symbols; empty if the image is shown as stored. @param {Turn} turn */
export function inWords(turn) {
  const { a, b, c, d } = turn;
  if (a * d - b * c > 0) return b === 1 ? '↻ 90°' : a === -1 ? '↻ 180°' : b === -1 ? '↻ 270°' : '';
  if (a === -1) return '⇆ flipped';
  if (d === -1) return '⇅ flipped';
  return b === 1 ? '⇆ flipped, ↻ 90°' : '⇆ flipped, ↻ 270°';
}
