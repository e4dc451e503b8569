// The score strip's arithmetic: scores and places between its two ends.
import { clamp } from '../../../static/format.js';

/** @typedef {{bins: number[], lo: number, hi: number}} Scores */

/** Where a score lies, 0 at the low end to 1 at the high end; what lies beyond is at the end. @param {Scores} scores
 * @param {number} score */
export const across = ({ lo, hi }, score) => clamp((score - lo) / (hi - lo), 0, 1);

/**
 * The place that a click means: the place itself where its bin holds a case, else the middle of the nearest bin that
 * does.
 * @param {Scores} scores @param {number} place 0..1
 */
export function binOf({ bins }, place) {
  const here = clamp(Math.floor(place * bins.length), 0, bins.length - 1);
  if (bins[here]) return clamp(place, 0, 1);
  const full = bins.flatMap((n, i) => (n ? [i] : []));
  if (!full.length) return clamp(place, 0, 1);
  const near = full.reduce((best, i) => (Math.abs(i - here) < Math.abs(best - here) ? i : best));
  return (near + 0.5) / bins.length;
}

/** The score at a place. @param {Scores} scores @param {number} place 0..1 */
export const scoreAt = ({ lo, hi }, place) => lo + place * (hi - lo);
