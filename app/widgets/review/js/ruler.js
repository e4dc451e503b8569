// The ruler: a line dragged over the image, with its length in pixels, and in millimetres if the file gives the size of
// a pixel.
import { LINES } from './colours.js';
import { written } from './written.js';

/** @typedef {Answers.CaseDetail['spacing']} Spacing */

/** A length in words.
 * @param {Spot} a @param {Spot} b in image pixels @param {Spacing} [spacing] millimetres of a pixel */
export function length(a, b, spacing) {
  const pixels = `${Math.hypot(b.x - a.x, b.y - a.y).toFixed(1)} px`;
  if (!spacing) return pixels;
  const mm = Math.hypot((b.x - a.x) * spacing.x, (b.y - a.y) * spacing.y);
  return `${mm.toFixed(1)} mm${spacing.at === 'detector' ? ' at the detector' : ''} (${pixels})`;
}

export class Ruler {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.active = false;
    /** @type {[Spot, Spot] | null} */
    this.line = null;
  }

  /** Activates the ruler, or deactivates it and removes its line. */
  toggle() {
    this.active = !this.active;
    if (!this.active) this.line = null;
    this.changed();
  }

  /** @param {Spot} p */
  down(p) {
    this.line = [p, p];
    this.changed();
  }

  /** @param {Spot} p */
  move(p) {
    if (this.line) this.line = [this.line[0], p];
    this.changed();
  }

  up() {}

  /** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {number} scale screen pixels of one
   * @param {Spacing} [spacing] */
  draw(context, scale, spacing) {
    if (!this.line) return;
    const [a, b] = this.line;
    const unit = (devicePixelRatio || 1) / scale;
    const ends = new Path2D();
    ends.moveTo(a.x, a.y);
    ends.lineTo(b.x, b.y);
    for (const { x, y } of this.line) ends.rect(x - 2 * unit, y - 2 * unit, 4 * unit, 4 * unit);
    for (const [colour, width] of /** @type {[string, number][]} */ ([
      [LINES.halo, 3.4],
      [LINES.edit, 1.6],
    ])) {
      context.strokeStyle = colour;
      context.lineWidth = width * unit;
      context.stroke(ends);
    }
    written(context, length(a, b, spacing), b, { right: 8, up: 6, colour: LINES.edit, halo: LINES.halo });
  }
}
