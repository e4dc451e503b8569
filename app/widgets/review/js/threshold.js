// The threshold of the heat map: its slider, its contour, and its measures (Dice, IoU, area, regions).
import { post } from '../../../static/api.js';
import { nearest, STEPS, sampler, stepOf } from './heat.js';
import * as layers from './layers.js';
import { BELOW } from './shapes.js';

const REST = 1500; // milliseconds after which a threshold counts as chosen, if the slider is not held

export class Threshold {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {number | null} of the slider; null: each map's own outline */
    this.step = null;
    /** @type {number | null} the value known to the server, 0..1 */
    this.reported = null;
    this.timer = 0;
  }

  current() {
    const { heat } = this.review;
    return this.step ?? (heat ? stepOf(heat.map, heat.map.scale.pixel) : STEPS / 2);
  }

  // Updates the contour and the measures after a new heat map or mask; the caller redraws.
  settle() {
    const { heat, maskId } = this.review;
    const counts = heat?.counted?.mask === maskId ? (heat?.counted?.counts ?? null) : null;
    this.review.put({ counts });
    this.cut();
    if (heat && !counts) requestAnimationFrame(() => setTimeout(() => this.count())); // the picture first
  }

  async count() {
    const { review } = this;
    const { heat, lesion, maskId, picture } = review;
    if (!heat || !picture) return;
    const stale = () => review.heat !== heat || review.lesion !== lesion;
    const counts = await this.counted(heat, lesion, maskId, picture, stale);
    if (!counts || stale()) return;
    review.put({ counts });
    review.redraw();
  }

  /** @param {import('./layers.js').Layer} made @param {import('./layers.js').MaskLayer | null} lesion @param {number |
   * null} mask @param {import('./image.js').Picture} picture @param {() => boolean} [stale] */
  async counted(made, lesion, mask, picture, stale) {
    const counts = await count(made, lesion?.pixels, picture, stale);
    if (counts) made.counted = { mask, counts };
    return counts;
  }

  // Outlines the heat maps at the threshold.
  cut() {
    const { heat, second } = this.review;
    if (heat) layers.cutAt(heat, this.step);
    if (heat && second) layers.cutAt(second, this.step);
  }

  /** Measures the regions at the threshold; null while their pixels are not counted. */
  measured() {
    const { counts } = this.review;
    return counts && measuredAt(counts, this.step);
  }

  /** @param {number} step */
  set(step) {
    const { heat, detail, history } = this.review;
    if (!heat || !detail) return;
    const [undo, redo] = [this.step, Math.min(Math.max(step, 0), STEPS)].map((one) => () => this.put(one));
    history.add({ words: 'threshold', kind: 'threshold', case: detail.id, undo, redo });
    redo();
  }

  /** @param {number | null} step */
  put(step) {
    const { review } = this;
    const { heat, detail, run } = review;
    const from = this.reported ?? this.current() / STEPS;
    this.step = step;
    if (!heat || !detail) return;
    this.cut();
    review.redraw();
    this.report({ case: detail.id, run, from, to: this.current() / STEPS });
  }

  // A change is an event of the audit trail, reported on release, once the slider rests.
  /** @param {{case: number, run: string | null, from: number, to: number}} change */
  report(change) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.review.$('.rv-threshold').matches(':active')) return this.report(change);
      this.reported = change.to;
      post('/api/review/threshold', change);
    }, REST);
  }
}

// Dice, IoU and area at any threshold in constant time: one pass counts, for each step of the slider, the image's
// pixels at or above it inside and outside the lesion mask. The pass runs at the image's own resolution.

const AT_ONCE = 1_000_000; // pixels counted before the page may update

/** @typedef {{inside: Float64Array, outside: Float64Array, lesion: number, pixels: number, own: number[]}} PixelCounts
 *   inside and outside the lesion, by step of the slider; own: both for the map's own outline */

/** Counts an image's pixels by the highest step of the slider that finds them. Null if it was cancelled.
 * @param {Pick<import('./layers.js').Layer, 'map' | 'field'>} made @param {Uint8Array | undefined} lesion
 * @param {{w: number, h: number}} image @param {() => boolean} [cancelled] @returns {Promise<PixelCounts | null>} */
export async function count({ map, field }, lesion, { w, h }, cancelled = () => false) {
  let pixels = 0; // of the lesion, also where no threshold finds them
  const inside = new Float64Array(STEPS + 2);
  const outside = new Float64Array(STEPS + 2);
  const own = [0, 0];
  const { values: outlined } = layers.ownCut({ map, field });
  const row = new Float32Array(w);
  const fillRow = sampler(map, w, h);
  const gain = STEPS / (map.scale.hi - map.scale.lo || 1);
  const [columns, rows] = [nearest(w, field.w), nearest(h, field.h)];
  const some = Math.ceil(AT_ONCE / w);
  for (let y = 0; y < h; y += 1) {
    fillRow(y, row);
    for (let x = 0, i = y * w; x < w; x += 1, i += 1) {
      const hit = lesion?.[i] ? 1 : 0;
      pixels += hit;
      const cell = rows[y] * field.w + columns[x];
      if (field.values[cell] === BELOW) continue; // outside the region
      const t = (row[x] - map.scale.lo) * gain;
      const bin = t < 0 ? 0 : t >= STEPS ? STEPS + 1 : Math.floor(t + 1e-4) + 1;
      (hit ? inside : outside)[bin] += 1;
      if (row[x] >= map.scale.pixel && outlined[cell] !== BELOW) own[1 - hit] += 1;
    }
    if ((y + 1) % some) continue;
    await new Promise((go) => setTimeout(go));
    if (cancelled()) return null;
  }
  for (let k = STEPS; k >= 0; k -= 1) {
    inside[k] += inside[k + 1];
    outside[k] += outside[k + 1];
  }
  return { inside, outside, lesion: pixels, pixels: w * h, own };
}

/** Measures slider step k, or the map's own outline for null: area in pixels, share of the image, overlap with any lesion.
 * @param {PixelCounts} counts @param {number | null} k */
export function measuredAt({ own, inside, outside, lesion, pixels }, k) {
  const [hit, beside] = k === null ? own : [inside[k + 1], outside[k + 1]];
  const area = hit + beside;
  const dice = lesion ? (2 * hit) / (area + lesion) : null;
  const iou = lesion ? hit / (beside + lesion) : null;
  return { area, share: area / pixels, dice, iou };
}

/** Compares two masks. @param {Uint8Array} a @param {Uint8Array} b */
export function overlap(a, b) {
  let both = 0;
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) {
    both += a[i] & b[i];
    sum += a[i] + b[i];
  }
  return { dice: sum ? (2 * both) / sum : 1, iou: sum - both ? both / (sum - both) : 1 };
}
