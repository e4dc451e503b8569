// Peaks of the score over a recording's frames or a volume's slices.

const LOOK = 12; // frames on either side that a peak must rise above

/**
 * Whether score i is higher than all within `look` before it and not lower than those after: of a plateau the first.
 * @param {(number | null)[]} scores
 * @param {number} i
 */
export function isPeak(scores, i, look = LOOK) {
  const score = (/** @type {number} */ k) => scores[k] ?? -Infinity;
  for (let d = 1; d <= look; d += 1) if (score(i - d) >= score(i) || score(i + d) > score(i)) return false;
  return score(i) > -Infinity;
}

/** The next peak after frame `at`, round the end to the beginning; -1 if there is none. @param {(number | null)[]} scores @param {number} at */
export function nextPeak(scores, at, look = LOOK) {
  for (let step = 1; step <= scores.length; step += 1) {
    const i = (at + step) % scores.length;
    if (isPeak(scores, i, look)) return i;
  }
  return -1;
}
