// The threshold of the heat map: its slider, its contour, and its measures (Dice, IoU, area, regions).
import { post } from '../../../static/api.js';
import { STEPS, stepOf } from './heat.js';
import * as layers from './layers.js';
import * as measure from './measure.js';

const REST = 1500; // milliseconds after which a threshold counts as chosen
const HELD = 500; // milliseconds between checks of a slider that is still held

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

  // Updates the contour and the measures after a new heat map or mask; the view is drawn anew after it.
  settle() {
    const { review } = this;
    const { heat } = review;
    const counted = heat?.counted;
    const known = counted?.mask === review.maskId ? counted : null;
    review.put({ counts: known?.counts ?? null });
    this.cut();
    if (heat && !known) requestAnimationFrame(() => setTimeout(() => this.count())); // the picture first
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
    const { w, h } = picture;
    const counts = await measure.count(made.map, lesion?.pixels, w, h, made.inside, stale, layers.ownCut(made));
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
    return counts && measure.at(counts, this.step);
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
    const send = () => {
      if (this.review.$('.rv-threshold').matches(':active')) {
        this.timer = setTimeout(send, HELD);
        return;
      }
      this.reported = change.to;
      post('/api/review/threshold', change);
    };
    this.timer = setTimeout(send, REST);
  }
}
