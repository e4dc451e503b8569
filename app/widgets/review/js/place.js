// The location of the next finding on the image: drag for a box, click for a point. Image pixels.
import { clamp } from '../../../static/format.js';
import { LINES } from './colours.js';
import { written } from './written.js';

/** @typedef {[number, number, number, number]} Corners x0, y0, x1, y1; for a point both corners are equal */

/** Says whether the corners are a box, not a point. @param {readonly number[]} corners */
export const isBox = ([x0, y0, x1, y1]) => x1 > x0 || y1 > y0;

/** Returns the corners between two spots, inside the image; a point if they are closer than `least`.
 * @param {Spot} a @param {Spot} b @param {{w: number, h: number}} image @param {number} least @returns {Corners} */
export function between(a, b, { w, h }, least) {
  const [p, q] = [a, b].map(({ x, y }) => ({ x: clamp(x, 0, w), y: clamp(y, 0, h) }));
  if (Math.hypot(a.x - b.x, a.y - b.y) < least) return [p.x, p.y, p.x, p.y];
  return [Math.min(p.x, q.x), Math.min(p.y, q.y), Math.max(p.x, q.x), Math.max(p.y, q.y)];
}

export class Place {
  /** @param {{draw: () => void, picture: {w: number, h: number} | null}} review */
  constructor(review) {
    this.review = review;
    this.active = false;
    this.least = 4; // minimum length of a drag in image pixels; shorter ones are clicks; set by draw
    /** @type {Spot | null} */
    this.from = null;
    /** @type {Corners | null} */
    this.corners = null;
  }

  /** Activates the tool, or deactivates it and drops the location. */
  toggle() {
    this.active = !this.active;
    this.clear();
  }

  clear() {
    this.from = null;
    this.corners = null;
    this.review.draw();
  }

  /** @param {Spot} p */
  down(p) {
    this.from = p;
    this.move(p);
  }

  /** @param {Spot} p */
  move(p) {
    const { picture } = this.review;
    if (this.from && picture) this.corners = between(this.from, p, picture, this.least);
    this.review.draw();
  }

  up() {
    this.from = null;
  }

  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {number} scale screen pixels of one
   * @param {(path: Path2D, colour: string, dash?: number[]) => void} trace */
  draw(context, scale, trace) {
    const ratio = devicePixelRatio || 1;
    this.least = (4 * ratio) / scale;
    if (!this.corners) return;
    const [x1, y0] = [this.corners[2], this.corners[1]];
    trace(outline(this.corners, scale), LINES.edit, [4, 3]);
    written(context, '1–9', { x: x1, y: y0 }, { right: 9, up: 4, colour: LINES.edit, halo: LINES.halo });
  }
}

/** A rectangle, or a ring around a point. @param {readonly number[]} corners @param {number} scale screen pixels of one of the image */
export function outline(corners, scale) {
  const [x0, y0, x1, y1] = corners;
  const path = new Path2D();
  if (isBox(corners)) path.rect(x0, y0, x1 - x0, y1 - y0);
  else path.arc(x0, y0, (6 * (devicePixelRatio || 1)) / scale, 0, 2 * Math.PI);
  return path;
}
