// Finds the point under the pointer, and points inside a shape.

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

/** Returns the visible point nearest to (x, y) within `reach`, or -1. Of two at one position, the one drawn on top.
 * @param {Float32Array} at x, y of the points @param {ArrayLike<number>} visible @param {number} x @param {number} y
 * @param {number} reach */
export function nearest(at, visible, x, y, reach) {
  let best = -1;
  let least = reach * reach;
  for (let i = 0; i < visible.length; i += 1) {
    const d = (at[2 * i] - x) ** 2 + (at[2 * i + 1] - y) ** 2;
    if (d > least || !visible[i]) continue;
    best = i;
    least = d;
  }
  return best;
}

/** Returns the indices of the visible points inside a polygon [x, y, x, y, ...] (even-odd rule).
 * @param {Float32Array} at x, y of the points @param {ArrayLike<number>} visible @param {number[]} polygon */
export function inside(at, visible, polygon) {
  const { x0, y0, x1, y1 } = bounds(polygon);
  const found = [];
  for (let i = 0; i < visible.length; i += 1) {
    const x = at[2 * i];
    const y = at[2 * i + 1];
    if (!visible[i] || x < x0 || x > x1 || y < y0 || y > y1) continue;
    let within = false;
    for (let k = 0, j = polygon.length - 2; k < polygon.length; j = k, k += 2) {
      const [ya, yb] = [polygon[k + 1], polygon[j + 1]];
      if (ya > y !== yb > y && x < ((polygon[j] - polygon[k]) * (y - ya)) / (yb - ya) + polygon[k]) within = !within;
    }
    if (within) found.push(i);
  }
  return found;
}
