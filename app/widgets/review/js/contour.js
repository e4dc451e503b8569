// Marching squares: the line where a field crosses a threshold, as one Path2D in the field's cell units.

// Corners of a cell, clockwise from the upper left, are bits 8 4 2 1; edges are top 0, right 1, bottom 2, left 3. For
// each kind of cell the edges that its segments join, two digits a segment.
const KINDS = ['', '32', '21', '31', '01', '3021', '02', '30', '30', '02', '0132', '01', '31', '21', '32', ''];
const SEGMENTS = KINDS.map((ends) => [...ends].map(Number));
export const BELOW = Math.fround(-1e30); // the value around the field: a region at the border is closed along it

/** @typedef {{w: number, h: number, values: Float32Array}} Field values (h, w), row by row */

/** Draws the line with a pen: a new Path2D, or any object with moveTo and lineTo.
 * @param {Field} field @param {number} level @param {any} [pen] @returns {Path2D} */
export function contour({ w, h, values }, level, pen = new Path2D()) {
  const blank = new Float32Array(w + 2).fill(BELOW);
  let above = blank;
  for (let y = 0; y <= h; y += 1) {
    let below = blank;
    if (y < h) {
      below = new Float32Array(w + 2);
      below.set(values.subarray(y * w, (y + 1) * w), 1);
      below[0] = below[w + 1] = BELOW;
    }
    for (let x = 0; x <= w; x += 1) {
      const a = above[x];
      const b = above[x + 1];
      const c = below[x + 1];
      const d = below[x];
      const kind = (a >= level ? 8 : 0) | (b >= level ? 4 : 0) | (c >= level ? 2 : 0) | (d >= level ? 1 : 0);
      if (kind === 0 || kind === 15) continue;
      for (let end = 0; end < SEGMENTS[kind].length; end += 1) {
        const edge = SEGMENTS[kind][end];
        const draw = end % 2 ? 'lineTo' : 'moveTo';
        // Cell centres are at half units, this cell's corners at x - .5 and x + .5.
        if (edge === 0) pen[draw](x - 0.5 + cut(a, b, level), y - 0.5);
        else if (edge === 1) pen[draw](x + 0.5, y - 0.5 + cut(b, c, level));
        else if (edge === 2) pen[draw](x - 0.5 + cut(d, c, level), y + 0.5);
        else pen[draw](x - 0.5, y - 0.5 + cut(a, d, level));
      }
    }
    above = below;
  }
  return pen;
}

/** Returns where the line crosses from a to b, 0..1. @param {number} a @param {number} b @param {number} level */
function cut(a, b, level) {
  return a === BELOW || b === BELOW ? 0.5 : (level - a) / (b - a);
}

/** Returns a mask's outline, in cells of `scale` pixels. Large masks are first reduced to at most `most` cells a side,
 * without losing a lesion pixel. @param {Uint8Array} mask @param {number} w @param {number} h */
export function outline(mask, w, h, most = 1024) {
  const f = Math.max(1, Math.ceil(Math.max(w, h) / most));
  const sw = Math.ceil(w / f);
  const sh = Math.ceil(h / f);
  const values = new Float32Array(sw * sh);
  for (let y = 0; y < h; y += 1) {
    const to = Math.floor(y / f) * sw;
    for (let x = 0, i = y * w; x < w; x += 1, i += 1) if (mask[i]) values[to + Math.floor(x / f)] = 1;
  }
  return { path: contour({ w: sw, h: sh, values }, 0.5), scale: f };
}

/** Returns the hottest spot of a heat map, in image pixels. @param {Field} field
 * @param {{w: number, h: number}} picture */
export function hottest({ w, h, values }, picture) {
  let at = 0;
  for (let i = 1; i < values.length; i += 1) if (values[i] > values[at]) at = i;
  return { x: (((at % w) + 0.5) * picture.w) / w, y: ((Math.floor(at / w) + 0.5) * picture.h) / h };
}
