// Connected regions: how many, which one was clicked, holes, smoothing. Masks are Uint8Array (h, w) of 0 and 1.
import { BELOW } from './contour.js';

/** @typedef {import('./contour.js').Field} Field */
/** @typedef {import('./shapes.js').Box} Box */

/** Counts 8-connected components of values >= level, by runs of rows. @param {Field} field @param {number} level */
export function components(field, level) {
  const { w, h, values } = field;
  /** @type {number[]} */
  const parent = [];
  const root = (/** @type {number} */ i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  /** @type {{start: number, end: number, id: number}[]} */
  let previous = [];
  let count = 0;
  for (let y = 0; y < h; y += 1) {
    /** @type {typeof previous} */
    const runs = [];
    for (let x = 0, i = y * w; x < w; x += 1, i += 1) {
      if (!(values[i] >= level)) continue;
      const start = x;
      while (x + 1 < w && values[i + 1] >= level) {
        x += 1;
        i += 1;
      }
      const id = parent.push(parent.length) - 1;
      count += 1;
      for (const run of previous) {
        if (run.end < start - 1 || run.start > x + 1) continue;
        const a = root(run.id);
        const b = root(id);
        if (a !== b) {
          parent[b] = a;
          count -= 1;
        }
      }
      runs.push({ start, end: x, id });
    }
    previous = runs;
  }
  return count;
}

/** Returns the field without the components of values >= level that never exceed `core`; the same field if none is
 * removed. @param {Field} field @param {number} level @param {number} core @returns {Field} */
export function cored(field, level, core) {
  if (level >= core) return field;
  const { w, h } = field;
  const values = field.values.slice();
  const kept = new Uint8Array(w * h);
  for (let i = 0; i < values.length; i += 1) {
    if (!(values[i] > core) || kept[i]) continue;
    const found = componentAt(field, level, i % w, Math.floor(i / w));
    if (found) found.inside.forEach((inside, j) => inside && (kept[j] = 1));
  }
  for (let i = 0; i < values.length; i += 1) if (values[i] >= level && !kept[i]) values[i] = BELOW;
  return { w, h, values };
}

/** Returns the component of values >= level at (x, y), or null if the point is below.
 * @param {Field} field @param {number} level @param {number} x @param {number} y */
export function componentAt(field, level, x, y) {
  const { w, h, values } = field;
  if (x < 0 || y < 0 || x >= w || y >= h || !(values[y * w + x] >= level)) return null;
  const inside = new Uint8Array(w * h);
  const box = { x0: x, y0: y, x1: x, y1: y };
  const stack = [y * w + x];
  inside[y * w + x] = 1;
  while (stack.length) {
    const i = /** @type {number} */ (stack.pop());
    const cx = i % w;
    const cy = (i - cx) / w;
    box.x0 = Math.min(box.x0, cx);
    box.x1 = Math.max(box.x1, cx);
    box.y0 = Math.min(box.y0, cy);
    box.y1 = Math.max(box.y1, cy);
    for (let ny = Math.max(cy - 1, 0); ny <= Math.min(cy + 1, h - 1); ny += 1) {
      for (let nx = Math.max(cx - 1, 0); nx <= Math.min(cx + 1, w - 1); nx += 1) {
        const j = ny * w + nx;
        if (!inside[j] && values[j] >= level) {
          inside[j] = 1;
          stack.push(j);
        }
      }
    }
  }
  return { inside, box };
}

/** The smallest box around a mask, or null. @param {Uint8Array} mask @param {number} w @param {number} h @returns {Box | null} */
export function boxOf(mask, w, h) {
  const box = { x0: w, y0: h, x1: -1, y1: -1 };
  for (let y = 0, i = 0; y < h; y += 1) {
    for (let x = 0; x < w; x += 1, i += 1) {
      if (!mask[i]) continue;
      if (x < box.x0) box.x0 = x;
      if (x > box.x1) box.x1 = x;
      if (y < box.y0) box.y0 = y;
      box.y1 = y;
    }
  }
  return box.x1 < 0 ? null : box;
}

/** Fills background that cannot be reached from outside. Changes the mask; returns its box.
 * @param {Uint8Array} mask @param {number} w @param {number} h */
export function fillHoles(mask, w, h) {
  const box = boxOf(mask, w, h);
  if (!box) return null;
  const bw = box.x1 - box.x0 + 3;
  const bh = box.y1 - box.y0 + 3;
  const outside = new Uint8Array(bw * bh);
  const wall = (/** @type {number} */ x, /** @type {number} */ y) => {
    const mx = box.x0 + x - 1;
    const my = box.y0 + y - 1;
    return mx >= box.x0 && mx <= box.x1 && my >= box.y0 && my <= box.y1 && mask[my * w + mx];
  };
  const stack = [0];
  outside[0] = 1;
  while (stack.length) {
    const i = /** @type {number} */ (stack.pop());
    const x = i % bw;
    const y = (i - x) / bw;
    for (const [nx, ny] of [
      [x - 1, y],
      [x + 1, y],
      [x, y - 1],
      [x, y + 1],
    ]) {
      if (nx < 0 || ny < 0 || nx >= bw || ny >= bh || outside[ny * bw + nx] || wall(nx, ny)) continue;
      outside[ny * bw + nx] = 1;
      stack.push(ny * bw + nx);
    }
  }
  for (let y = box.y0; y <= box.y1; y += 1) {
    for (let x = box.x0; x <= box.x1; x += 1) {
      if (!outside[(y - box.y0 + 1) * bw + x - box.x0 + 1]) mask[y * w + x] = 1;
    }
  }
  return box;
}

/** Smooths by majority in squares of side 2r + 1, by sums over rows and columns. Changes the mask; returns that box.
 * @param {Uint8Array} mask @param {number} w @param {number} h @param {number} r */
export function smooth(mask, w, h, r) {
  const inner = boxOf(mask, w, h);
  if (!inner) return null;
  const box = {
    x0: Math.max(inner.x0 - r, 0),
    y0: Math.max(inner.y0 - r, 0),
    x1: Math.min(inner.x1 + r, w - 1),
    y1: Math.min(inner.y1 + r, h - 1),
  };
  const bw = box.x1 - box.x0 + 1;
  const bh = box.y1 - box.y0 + 1;
  const sums = new Int32Array((bw + 1) * (bh + 1));
  for (let y = 0; y < bh; y += 1) {
    let line = 0;
    for (let x = 0; x < bw; x += 1) {
      line += mask[(box.y0 + y) * w + box.x0 + x];
      sums[(y + 1) * (bw + 1) + x + 1] = sums[y * (bw + 1) + x + 1] + line;
    }
  }
  const half = (2 * r + 1) ** 2 / 2;
  for (let y = 0; y < bh; y += 1) {
    const t = Math.max(y - r, 0) * (bw + 1);
    const b = Math.min(y + r + 1, bh) * (bw + 1);
    for (let x = 0; x < bw; x += 1) {
      const l = Math.max(x - r, 0);
      const e = Math.min(x + r + 1, bw);
      mask[(box.y0 + y) * w + box.x0 + x] = sums[b + e] - sums[t + e] - sums[b + l] + sums[t + l] > half ? 1 : 0;
    }
  }
  return box;
}
