// The tools that are dragged over the image: the ruler, and the location of the next finding. All in image pixels.
import { clamp } from '../../../static/format.js';
import { LINES } from './colours.js';

/** @typedef {Answers.CaseDetail['spacing']} Spacing */
/** @typedef {[number, number, number, number]} Corners x0, y0, x1, y1; for a point both corners are equal */
class Dragged {
  /** @param {ReviewView} review */
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
  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {Spacing} [spacing] */
  draw(context, spacing) {
    if (!this.line) return;
    const [a, b] = this.line;
    const unit = unitOf(context);
    const path = new Path2D();
    path.moveTo(a.x, a.y);
    path.lineTo(b.x, b.y);
    for (const { x, y } of this.line) path.rect(x - 2 * unit, y - 2 * unit, 4 * unit, 4 * unit);
    trace(context, path, LINES.edit);
    written(context, length(a, b, spacing), b, LINES.edit);
  }
}

/** The location of the next finding: drag for a box, click for a point. */
export class Place extends Dragged {
  /** @type {Corners | null} */
  corners = null;

  clear() {
    this.corners = null;
    super.clear();
  }

  /** @param {Spot} p */
  move(p) {
    super.move(p);
    const { picture, view } = this.review;
    const least = 4 / view.scale; // a shorter drag is a click
    if (this.line && picture) this.corners = between(...this.line, picture, least);
  }

  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel */
  draw(context) {
    if (!this.corners) return;
    const [, y, x] = this.corners;
    trace(context, outline(context, this.corners), LINES.edit, { dash: [4, 3] });
    written(context, '1–9', { x, y }, LINES.edit);
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

// Drawing on the image, in lines and text of constant size however the image is turned and zoomed.
/** Returns the size of a CSS pixel in the context's unit. @param {CanvasRenderingContext2D} context */
export function unitOf(context) {
  const { a, b } = context.getTransform();
  return devicePixelRatio / Math.hypot(a, b);
}

/** Draws a line with a halo. @param {CanvasRenderingContext2D} context @param {Path2D} path @param {string} colour
 * @param {{width?: number, dash?: number[]}} [look] in CSS pixels */
export function trace(context, path, colour, { width = 1.7, dash = [] } = {}) {
  const unit = unitOf(context);
  context.lineJoin = 'round';
  context.setLineDash(dash.map((d) => d * unit));
  context.strokeStyle = LINES.halo;
  context.lineWidth = (width + 1.6) * unit;
  context.stroke(path);
  context.strokeStyle = colour;
  context.lineWidth = width * unit;
  context.stroke(path);
  context.setLineDash([]);
}

/** @param {Spot} p @param {number} radius */
export function ring({ x, y }, radius) {
  const path = new Path2D();
  path.arc(x, y, radius, 0, 2 * Math.PI);
  return path;
}

/** A rectangle, or a ring around a point. @param {CanvasRenderingContext2D} context @param {readonly number[]} corners */
export function outline(context, corners) {
  const [x, y, x1, y1] = corners;
  if (!isBox(corners)) return ring({ x, y }, 6 * unitOf(context));
  const path = new Path2D();
  path.rect(x, y, x1 - x, y1 - y);
  return path;
}

/** Writes text beside a spot of the image, upright. @param {CanvasRenderingContext2D} context @param {string} text
 * @param {Spot} p @param {string} colour */
export function written(context, text, p, colour) {
  const at = context.getTransform().transformPoint(p);
  context.save();
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, at.x, at.y);
  context.font = '600 13px system-ui, sans-serif';
  context.strokeStyle = LINES.halo;
  context.lineWidth = 3.4;
  context.strokeText(text, 9, -5);
  context.fillStyle = colour;
  context.fillText(text, 9, -5);
  context.restore();
}
