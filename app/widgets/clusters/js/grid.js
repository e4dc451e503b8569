// Finds the point under the pointer, and points inside a shape, without checking every point at every move.
/** Returns the bounding box of points x, y, x, y, ... @param {ArrayLike<number>} at */
export function bounds(at) {
  const box = { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
  for (let k = 0; k < at.length; k += 2) {
    if (at[k] < box.x0) box.x0 = at[k];
    if (at[k] > box.x1) box.x1 = at[k];
    if (at[k + 1] < box.y0) box.y0 = at[k + 1];
    if (at[k + 1] > box.y1) box.y1 = at[k + 1];
  }
  return box;
}

export class Grid {
  /** @param {Float32Array} at x, y of n points in map units */
  constructor(at) {
    this.at = at;
    const n = at.length / 2;
    const { x0, y0, x1, y1 } = bounds(at);
    this.bounds = { x0, y0, x1, y1 };
    this.side = Math.max(1, Math.ceil(Math.sqrt(n / 2)));
    this.cw = Math.max((x1 - x0) / this.side, 1e-12);
    this.ch = Math.max((y1 - y0) / this.side, 1e-12);
    const cell = new Int32Array(n);
    this.start = new Int32Array(this.side * this.side + 1);
    for (let i = 0; i < n; i += 1) {
      cell[i] = this.row(at[2 * i + 1]) * this.side + this.column(at[2 * i]);
      this.start[cell[i] + 1] += 1;
    }
    for (let c = 0; c < this.side * this.side; c += 1) this.start[c + 1] += this.start[c];
    this.items = new Int32Array(n);
    const next = this.start.slice(0, -1);
    for (let i = 0; i < n; i += 1) this.items[next[cell[i]]++] = i;
  }

  /** @param {number} x */
  column(x) {
    return Math.min(Math.max(Math.floor((x - this.bounds.x0) / this.cw), 0), this.side - 1);
  }
  /** @param {number} y */
  row(y) {
    return Math.min(Math.max(Math.floor((y - this.bounds.y0) / this.ch), 0), this.side - 1);
  }

  /** Calls fn(i) for every point of the cells that touch the box (also for some points outside it).
   * @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {(i: number) => void} fn */
  each(x0, y0, x1, y1, fn) {
    const [c0, c1, r0, r1] = [this.column(x0), this.column(x1), this.row(y0), this.row(y1)];
    for (let r = r0; r <= r1; r += 1) {
      for (let k = this.start[r * this.side + c0], end = this.start[r * this.side + c1 + 1]; k < end; k += 1)
        fn(this.items[k]);
    }
  }

  /** Returns the visible point nearest to (x, y) within `reach`, or -1. Of two at one position, the one drawn on top.
   * @param {number} x @param {number} y @param {number} reach @param {ArrayLike<number>} visible */
  nearest(x, y, reach, visible) {
    let best = -1;
    let least = reach * reach;
    this.each(x - reach, y - reach, x + reach, y + reach, (i) => {
      if (!visible[i]) return;
      const d = (this.at[2 * i] - x) ** 2 + (this.at[2 * i + 1] - y) ** 2;
      if (d < least || (d === least && i > best)) {
        best = i;
        least = d;
      }
    });
    return best;
  }

  /** Returns the indices of the visible points inside a polygon [x, y, x, y, ...] (even-odd rule).
   * @param {number[]} polygon @param {ArrayLike<number>} visible */
  inside(polygon, visible) {
    const { x0, y0, x1, y1 } = bounds(polygon);
    /** @type {number[]} */
    const found = [];
    this.each(x0, y0, x1, y1, (i) => {
      if (!visible[i]) return;
      const x = this.at[2 * i];
      const y = this.at[2 * i + 1];
      let within = false;
      for (let k = 0, j = polygon.length - 2; k < polygon.length; j = k, k += 2) {
        const [ya, yb] = [polygon[k + 1], polygon[j + 1]];
        if (ya > y !== yb > y && x < ((polygon[j] - polygon[k]) * (y - ya)) / (yb - ya) + polygon[k]) within = !within;
      }
      if (within) found.push(i);
    });
    return found.sort((a, b) => a - b);
  }
}
