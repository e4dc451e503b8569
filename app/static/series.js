// The data of a line chart: points on a common axis, limits, labels.

/** @typedef {{low?: number, high?: number, lines?: {at: number, label: string}[]}} Bounds low, high: fixed limits */

/** Formats a chart's number in few characters. @param {number | null | undefined} v */
export function label(v) {
  if (v == null) return '–';
  const a = Math.abs(v);
  if (a && (a < 0.001 || a >= 1e5)) return v.toExponential(1);
  return String(Number(v.toPrecision(a >= 100 ? 4 : 3)));
}

/** Puts all lines on the union of their x: [xs, ys, ys, ...]. `undefined` means no point at an x (the line is drawn
 * through), `null` a missing value (the line is interrupted).
 * @param {Page.Line[]} lines each with rising x @returns {[number[], ...(number | null | undefined)[][]]} */
export function aligned(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const columns = lines.map((line) => {
    /** @type {(number | null | undefined)[]} */
    const ys = new Array(xs.length).fill(undefined);
    for (const [x, y] of line.points) ys[/** @type {number} */ (place.get(x))] = Number.isFinite(y) ? y : null;
    return ys;
  });
  return [xs, ...columns];
}

/** Returns the limits of y: the drawn values with a margin of 6 %, or the fixed limits.
 * @param {(number | null)[]} values @param {Bounds} bounds @returns {[number, number]} */
export function limits(values, { low, high, lines = [] }) {
  const known = values.filter((v) => v != null && Number.isFinite(v)).map(Number);
  const all = [...known, ...lines.map((line) => line.at)];
  if (!all.length) return [low ?? 0, high ?? 1];
  let from = low ?? all.reduce((a, b) => Math.min(a, b));
  let to = high ?? all.reduce((a, b) => Math.max(a, b));
  if (from === to) {
    from -= Math.abs(from) * 0.1 + 0.01;
    to += Math.abs(to) * 0.1 + 0.01;
  }
  const margin = (to - from) * 0.06;
  return [low == null ? from - margin : from, high == null ? to + margin : to];
}

/** A line's value at the point nearest to x, or its last if x is null. @param {Page.Line} line @param {number | null} x */
export function valueAt({ points }, x) {
  if (x == null) return points[points.length - 1][1];
  return points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best))[1];
}
