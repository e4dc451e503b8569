// Geometry of masks and fields: strokes, polygons, connected regions, contours. Masks are Uint8Array (h, w) of 0 and 1,
// in the image's pixels.
import { clamp } from '../../../static/format.js';

/** @typedef {{x: number, y: number}} Spot a position in image pixels; pixel (0, 0) spans 0..1 */
/** @typedef {{x0: number, y0: number, x1: number, y1: number}} Box pixels, ends included */

/** Returns the pixels of an image of w x h that a rectangle touches, or null.
 * @param {number} left @param {number} top @param {number} right @param {number} bottom @param {number} w
 * @param {number} h @returns {Box | null} */
export function within(left, top, right, bottom, w, h) {
  const [x0, y0] = [Math.max(Math.floor(left), 0), Math.max(Math.floor(top), 0)];
  const [x1, y1] = [Math.min(Math.ceil(right), w) - 1, Math.min(Math.ceil(bottom), h) - 1];
  return x1 < x0 || y1 < y0 ? null : { x0, y0, x1, y1 };
}

/** The sides of a box. @param {Box} box @returns {[w: number, h: number]} */
export const sides = ({ x0, y0, x1, y1 }) => [x1 - x0 + 1, y1 - y0 + 1];

/** Sweeps a disc of radius r from a to b. Returns a box around the change, or null.
 * @param {Uint8Array} mask changed: `value` where the disc was @param {number} w @param {number} h @param {Spot} a
 * @param {Spot} b @param {number} r @param {number} value */
export function stroke(mask, w, h, a, b, r, value) {
  const [left, right] = [Math.min(a.x, b.x) - r, Math.max(a.x, b.x) + r];
  const box = within(left, Math.min(a.y, b.y) - r, right, Math.max(a.y, b.y) + r, w, h);
  if (!box) return null;
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const long = dx * dx + dy * dy;
  for (let y = box.y0; y <= box.y1; y += 1) {
    for (let x = box.x0; x <= box.x1; x += 1) {
      const px = x + 0.5 - a.x;
      const py = y + 0.5 - a.y;
      const t = long ? clamp((px * dx + py * dy) / long, 0, 1) : 0;
      const ex = px - t * dx;
      const ey = py - t * dy;
      if (ex * ex + ey * ey <= r * r) mask[y * w + x] = value;
    }
  }
  return box;
}

/** Sets pixels whose centre is inside the polygon (even-odd rule).
 * @param {Uint8Array} mask @param {number} w @param {number} h @param {Spot[]} points @param {number} value */
export function polygon(mask, w, h, points, value) {
  const ys = points.map((p) => p.y);
  const end = Math.min(Math.ceil(Math.max(...ys)), h);
  for (let y = Math.max(Math.floor(Math.min(...ys)), 0); y < end; y += 1) {
    const at = y + 0.5;
    const cuts = points.flatMap((p, i) => {
      const q = points[(i + 1) % points.length];
      return p.y > at !== q.y > at ? [p.x + ((at - p.y) * (q.x - p.x)) / (q.y - p.y)] : [];
    });
    cuts.sort((m, n) => m - n);
    for (let i = 0; i + 1 < cuts.length; i += 2) {
      const from = Math.max(Math.ceil(cuts[i] - 0.5), 0);
      const to = Math.min(Math.ceil(cuts[i + 1] - 0.5), w);
      if (to > from) mask.fill(value, y * w + from, y * w + to);
    }
  }
}

/** Returns the part of a mask inside a box. @param {Uint8Array} mask @param {number} w @param {Box} box */
export function cut(mask, w, box) {
  const [bw, bh] = sides(box);
  const out = new Uint8Array(bw * bh);
  for (let y = 0, i = box.y0 * w + box.x0; y < bh; y += 1, i += w) out.set(mask.subarray(i, i + bw), y * bw);
  return out;
}

/** Restores a part taken by `cut`. @param {Uint8Array | Float32Array} mask @param {number} w
 * @param {Box} box @param {Uint8Array | Float32Array} part */
export function paste(mask, w, box, part) {
  const [bw, bh] = sides(box);
  for (let y = 0, i = box.y0 * w + box.x0; y < bh; y += 1, i += w) mask.set(part.subarray(y * bw, (y + 1) * bw), i);
}

/** Returns values (h, w) with a rim of one cell around them. @param {Uint8Array | Float32Array} values @param {number} w
 * @param {number} h @param {number} rim its value */
function rimmed(values, w, h, rim) {
  const out = new Float32Array((w + 2) * (h + 2)).fill(rim);
  paste(out, w + 2, { x0: 1, y0: 1, x1: w, y1: h }, values);
  return out;
}

/** Adds the pixels of one mask to another. @param {Uint8Array} mask changed @param {Uint8Array} more */
export function unite(mask, more) {
  for (let i = 0; i < more.length; i += 1) mask[i] |= more[i];
}

/** Packs one bit a pixel, rows without padding, highest bit first, like numpy.packbits.
 * @param {Uint8Array} mask */
export function pack(mask) {
  const out = new Uint8Array(Math.ceil(mask.length / 8));
  for (let i = 0; i < mask.length; i += 1) if (mask[i]) out[i >> 3] |= 128 >> (i & 7);
  return out;
}

/** @param {Uint8Array} bytes @param {number} length of the mask */
export function unpack(bytes, length) {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i += 1) out[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return out;
}

// Connected regions: how many, which one was clicked, holes, smoothing.
/** Marks in `seen` the region of values >= level around pixel `start`. Pixels hang together along their sides, and at
 * their corners if `corners`.
 * @param {Field} field @param {number} level @param {number} start @param {Uint8Array} seen @param {boolean} corners */
function flood({ w, h, values }, level, start, seen, corners) {
  const stack = [start];
  seen[start] = 1;
  while (stack.length) {
    const i = /** @type {number} */ (stack.pop());
    const x = i % w;
    const y = (i - x) / w;
    for (let ny = Math.max(y - 1, 0); ny <= Math.min(y + 1, h - 1); ny += 1) {
      for (let nx = Math.max(x - 1, 0); nx <= Math.min(x + 1, w - 1); nx += 1) {
        const j = ny * w + nx;
        if (seen[j] || !(values[j] >= level) || !(corners || nx === x || ny === y)) continue;
        seen[j] = 1;
        stack.push(j);
      }
    }
  }
}

/** Counts 8-connected components of values >= level. @param {Field} field @param {number} level */
export function components(field, level) {
  const seen = new Uint8Array(field.values.length);
  let count = 0;
  for (let i = 0; i < seen.length; i += 1) {
    if (seen[i] || !(field.values[i] >= level)) continue;
    flood(field, level, i, seen, true);
    count += 1;
  }
  return count;
}

/** Returns the field without the components of values >= level that never exceed `core`; the same field if none is
 * removed. @param {Field} field @param {number} level @param {number} core @returns {Field} */
export function cored(field, level, core) {
  if (level >= core) return field;
  const { w, h } = field;
  const kept = new Uint8Array(w * h);
  for (let i = 0; i < kept.length; i += 1) if (field.values[i] > core && !kept[i]) flood(field, level, i, kept, true);
  return { w, h, values: field.values.map((v, i) => (v >= level && !kept[i] ? BELOW : v)) };
}

/** Returns the component of values >= level at (x, y), or null if the point is below.
 * @param {Field} field @param {number} level @param {number} x @param {number} y */
export function componentAt(field, level, x, y) {
  const { w, h, values } = field;
  if (x < 0 || y < 0 || x >= w || y >= h || !(values[y * w + x] >= level)) return null;
  const inside = new Uint8Array(w * h);
  flood(field, level, y * w + x, inside, true);
  return { inside, box: /** @type {Box} */ (boxOf(inside, w, h)) };
}

/** The smallest box around a mask, or null. @param {Uint8Array} mask @param {number} w @param {number} h @returns {Box | null} */
export function boxOf(mask, w, h) {
  const box = { x0: w, y0: h, x1: -1, y1: -1 };
  for (let y = 0; y < h; y += 1) {
    const row = mask.subarray(y * w, (y + 1) * w);
    const first = row.indexOf(1);
    if (first < 0) continue;
    box.x0 = Math.min(box.x0, first);
    box.x1 = Math.max(box.x1, row.lastIndexOf(1));
    box.y0 = Math.min(box.y0, y);
    box.y1 = y;
  }
  return box.x1 < 0 ? null : box;
}

/** Fills background that cannot be reached from outside. Changes the mask.
 * @param {Uint8Array} mask @param {number} w @param {number} h */
export function fillHoles(mask, w, h) {
  const box = boxOf(mask, w, h);
  if (!box) return;
  const [bw, bh] = sides(box);
  const background = cut(mask, w, box).map((v) => 1 - v);
  const outside = new Uint8Array((bw + 2) * (bh + 2));
  flood({ w: bw + 2, h: bh + 2, values: rimmed(background, bw, bh, 1) }, 1, 0, outside, false);
  const unreached = cut(outside, bw + 2, { x0: 1, y0: 1, x1: bw, y1: bh }).map((v) => 1 - v);
  paste(mask, w, box, unreached);
}

/** Sums each value (h, w) and its r neighbours on both sides in the row. Returns the sums with rows as columns.
 * @param {ArrayLike<number>} values @param {number} w @param {number} h @param {number} r */
function rowSums(values, w, h, r) {
  const out = new Int32Array(w * h);
  for (let y = 0; y < h; y += 1) {
    let sum = 0;
    for (let x = -r; x < w; x += 1) {
      if (x + r < w) sum += values[y * w + x + r];
      if (x > r) sum -= values[y * w + x - r - 1];
      if (x >= 0) out[x * h + y] = sum;
    }
  }
  return out;
}

/** Smooths by majority in squares of side 2r + 1. Changes the mask.
 * @param {Uint8Array} mask @param {number} w @param {number} h */
export function smooth(mask, w, h, r = Math.max(2, Math.round(Math.max(w, h) / 200))) {
  const inner = boxOf(mask, w, h);
  const box = inner && within(inner.x0 - r, inner.y0 - r, inner.x1 + 1 + r, inner.y1 + 1 + r, w, h);
  if (!box) return;
  const [bw, bh] = sides(box);
  const sums = rowSums(rowSums(cut(mask, w, box), bw, bh, r), bh, bw, r);
  const half = (2 * r + 1) ** 2 / 2;
  const most = Uint8Array.from(sums, (sum) => (sum > half ? 1 : 0));
  paste(mask, w, box, most);
}

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
  const all = rimmed(values, w, h, BELOW);
  for (let y = 0; y <= h; y += 1) {
    for (let x = 0; x <= w; x += 1) {
      const i = y * (w + 2) + x;
      const a = all[i];
      const b = all[i + 1];
      const c = all[i + w + 3];
      const d = all[i + w + 2];
      const kind = (a >= level ? 8 : 0) | (b >= level ? 4 : 0) | (c >= level ? 2 : 0) | (d >= level ? 1 : 0);
      if (kind === 0 || kind === 15) continue;
      for (let end = 0; end < SEGMENTS[kind].length; end += 1) {
        const edge = SEGMENTS[kind][end];
        const draw = end % 2 ? 'lineTo' : 'moveTo';
        // Cell centres are at half units, this cell's corners at x - .5 and x + .5.
        if (edge === 0) pen[draw](x - 0.5 + crossing(a, b, level), y - 0.5);
        else if (edge === 1) pen[draw](x + 0.5, y - 0.5 + crossing(b, c, level));
        else if (edge === 2) pen[draw](x - 0.5 + crossing(d, c, level), y + 0.5);
        else pen[draw](x - 0.5, y - 0.5 + crossing(a, d, level));
      }
    }
  }
  return pen;
}

/** Returns where the line crosses from a to b, 0..1. @param {number} a @param {number} b @param {number} level */
function crossing(a, b, level) {
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
