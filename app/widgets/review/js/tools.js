// The tools that are dragged over the image: the ruler, and the location of the next finding. All in image pixels.
import { clamp } from '../../../static/format.js';
import { LINES } from './colours.js';

/** @typedef {Answers.CaseDetail['spacing']} Spacing */
/** @typedef {[number, number, number, number]} Corners x0, y0, x1, y1; for a point both corners are equal */
/** @typedef {(path: Path2D, colour: string, dash?: number[]) => void} Trace */

class Dragged {
  /** @param {{draw: () => void, picture: {w: number, h: number} | null}} review */
  constructor(review) {
    this.review = review;
    this.active = false;
    /** @type {[Spot, Spot] | null} where the drag began, and where it is now */
    this.line = null;
  }

  /** Activates the tool, or deactivates it; removes what was dragged. */
  toggle() {
    this.active = !this.active;
    this.clear();
  }

  clear() {
    this.line = null;
    this.review.draw();
  }

  /** @param {Spot} p */
  down(p) {
    this.line = [p, p];
    this.move(p);
  }

  /** @param {Spot} p */
  move(p) {
    if (this.line) this.line = [this.line[0], p];
    this.review.draw();
  }

  up() {}
}

/** A line with its length in pixels, and in millimetres if the file gives the size of a pixel. */
export class Ruler extends Dragged {
  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {number} scale screen pixels of one
   * @param {Trace} trace @param {Spacing} [spacing] */
  draw(context, scale, trace, spacing) {
    if (!this.line) return;
    const [a, b] = this.line;
    const unit = (devicePixelRatio || 1) / scale;
    const path = new Path2D();
    path.moveTo(a.x, a.y);
    path.lineTo(b.x, b.y);
    for (const { x, y } of this.line) path.rect(x - 2 * unit, y - 2 * unit, 4 * unit, 4 * unit);
    trace(path, LINES.edit);
    written(context, length(a, b, spacing), b, { right: 8, up: 6, colour: LINES.edit, halo: LINES.halo });
  }
}

/** The location of the next finding: drag for a box, click for a point. */
export class Place extends Dragged {
  least = 4; // minimum length of a drag in image pixels; shorter ones are clicks; set by draw
  /** @type {Corners | null} */
  corners = null;

  clear() {
    this.corners = null;
    super.clear();
  }

  /** @param {Spot} p */
  move(p) {
    super.move(p);
    const { picture } = this.review;
    if (this.line && picture) this.corners = between(...this.line, picture, this.least);
  }

  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {number} scale screen pixels of one
   * @param {Trace} trace */
  draw(context, scale, trace) {
    this.least = (4 * (devicePixelRatio || 1)) / scale;
    if (!this.corners) return;
    const [x, y] = [this.corners[2], this.corners[1]];
    trace(outline(this.corners, scale), LINES.edit, [4, 3]);
    written(context, '1–9', { x, y }, { right: 9, up: 4, colour: LINES.edit, halo: LINES.halo });
  }
}

/** A length in words.
 * @param {Spot} a @param {Spot} b in image pixels @param {Spacing} [spacing] millimetres of a pixel */
export function length(a, b, spacing) {
  const pixels = `${Math.hypot(b.x - a.x, b.y - a.y).toFixed(1)} px`;
  if (!spacing) return pixels;
  const mm = Math.hypot((b.x - a.x) * spacing.x, (b.y - a.y) * spacing.y);
  return `${mm.toFixed(1)} mm${spacing.at === 'detector' ? ' at the detector' : ''} (${pixels})`;
}

/** Says whether the corners are a box, not a point. @param {readonly number[]} corners */
export const isBox = ([x0, y0, x1, y1]) => x1 > x0 || y1 > y0;

/** Returns the corners between two spots, inside the image; a point if they are closer than `least`.
 * @param {Spot} a @param {Spot} b @param {{w: number, h: number}} image @param {number} least @returns {Corners} */
export function between(a, b, { w, h }, least) {
  const [p, q] = [a, b].map(({ x, y }) => ({ x: clamp(x, 0, w), y: clamp(y, 0, h) }));
  if (Math.hypot(a.x - b.x, a.y - b.y) < least) return [p.x, p.y, p.x, p.y];
  return [Math.min(p.x, q.x), Math.min(p.y, q.y), Math.max(p.x, q.x), Math.max(p.y, q.y)];
}

/** A rectangle, or a ring around a point. @param {readonly number[]} corners @param {number} scale screen pixels of one of the image */
export function outline(corners, scale) {
  const [x0, y0, x1, y1] = corners;
  const path = new Path2D();
  if (isBox(corners)) path.rect(x0, y0, x1 - x0, y1 - y0);
  else path.arc(x0, y0, (6 * (devicePixelRatio || 1)) / scale, 0, 2 * Math.PI);
  return path;
}

const SIZE = 13; // CSS pixels of the text on the image

/** Writes text on the image: upright and of constant size, however the image is turned and zoomed.
 * @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {string} text @param {{x: number, y:
 * number}} p in image pixels @param {{right: number, up: number, colour: string, halo?: string}} look right, up: from
 * p, in CSS pixels */
export function written(context, text, p, { right, up, colour, halo }) {
  const ratio = devicePixelRatio || 1;
  const at = context.getTransform().transformPoint(p);
  context.save();
  context.setTransform(ratio, 0, 0, ratio, at.x, at.y);
  context.font = `600 ${SIZE}px system-ui, sans-serif`;
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = 3.4;
    context.strokeText(text, right, -up);
  }
  context.fillStyle = colour;
  context.fillText(text, right, -up);
  context.restore();
}
