// Converts strokes and polygons into masks, in the image's pixels.

/** @typedef {{x: number, y: number}} Spot a position in image pixels; pixel (0, 0) spans 0..1 */
/** @typedef {{x0: number, y0: number, x1: number, y1: number}} Box pixels, ends included */

/** Sweeps a disc of radius r from a to b. Returns the changed box, or null.
 * @param {Uint8Array} mask changed: `value` where the disc was @param {number} w @param {number} h @param {Spot} a
 * @param {Spot} b @param {number} r @param {number} value @returns {Box | null} */
export function stroke(mask, w, h, a, b, r, value) {
  const x0 = Math.max(Math.floor(Math.min(a.x, b.x) - r), 0);
  const x1 = Math.min(Math.ceil(Math.max(a.x, b.x) + r), w - 1);
  const y0 = Math.max(Math.floor(Math.min(a.y, b.y) - r), 0);
  const y1 = Math.min(Math.ceil(Math.max(a.y, b.y) + r), h - 1);
  if (x1 < x0 || y1 < y0) return null;
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const long = dx * dx + dy * dy;
  for (let y = y0; y <= y1; y += 1) {
    for (let x = x0; x <= x1; x += 1) {
      const px = x + 0.5 - a.x;
      const py = y + 0.5 - a.y;
      const t = long ? Math.min(Math.max((px * dx + py * dy) / long, 0), 1) : 0;
      const ex = px - t * dx;
      const ey = py - t * dy;
      if (ex * ex + ey * ey <= r * r) mask[y * w + x] = value;
    }
  }
  return { x0, y0, x1, y1 };
}

/** Sets pixels whose centre is inside the polygon (even-odd rule). Returns the changed box, or null.
 * @param {Uint8Array} mask @param {number} w @param {number} h @param {Spot[]} points @param {number} value @returns
 * {Box | null} */
export function polygon(mask, w, h, points, value) {
  const ys = points.map((p) => p.y);
  const y0 = Math.max(Math.floor(Math.min(...ys)), 0);
  const y1 = Math.min(Math.ceil(Math.max(...ys)), h - 1);
  const box = { x0: w, y0, x1: -1, y1 };
  for (let y = y0; y <= y1; y += 1) {
    const at = y + 0.5;
    /** @type {number[]} */
    const cuts = [];
    for (let i = 0; i < points.length; i += 1) {
      const p = points[i];
      const q = points[(i + 1) % points.length];
      if (p.y > at !== q.y > at) cuts.push(p.x + ((at - p.y) * (q.x - p.x)) / (q.y - p.y));
    }
    cuts.sort((m, n) => m - n);
    for (let i = 0; i + 1 < cuts.length; i += 2) {
      const from = Math.max(Math.ceil(cuts[i] - 0.5), 0);
      const to = Math.min(Math.ceil(cuts[i + 1] - 0.5) - 1, w - 1);
      if (to < from) continue;
      mask.fill(value, y * w + from, y * w + to + 1);
      box.x0 = Math.min(box.x0, from);
      box.x1 = Math.max(box.x1, to);
    }
  }
  return box.x1 < 0 ? null : box;
}

/** Returns the smallest box around both. @param {Box | null} a @param {Box | null} b */
export function join(a, b) {
  if (!a) return b;
  if (!b) return a;
  return { x0: Math.min(a.x0, b.x0), y0: Math.min(a.y0, b.y0), x1: Math.max(a.x1, b.x1), y1: Math.max(a.y1, b.y1) };
}

/** Returns the part of a mask inside a box. @param {Uint8Array} mask @param {number} w @param {Box} box */
export function cut(mask, w, box) {
  const bw = box.x1 - box.x0 + 1;
  const out = new Uint8Array(bw * (box.y1 - box.y0 + 1));
  for (let y = box.y0; y <= box.y1; y += 1)
    out.set(mask.subarray(y * w + box.x0, y * w + box.x1 + 1), (y - box.y0) * bw);
  return out;
}

/** Restores a part taken by `cut`. @param {Uint8Array} mask @param {number} w @param {Box} box @param {Uint8Array} part */
export function paste(mask, w, box, part) {
  const bw = box.x1 - box.x0 + 1;
  for (let y = box.y0; y <= box.y1; y += 1)
    mask.set(part.subarray((y - box.y0) * bw, (y - box.y0 + 1) * bw), y * w + box.x0);
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
