// How a case is shown: colours, region, window and level, layout. Stored with the reader's settings.
import { post } from '../../../static/api.js';
import { windowOf, windows } from './image.js';
import * as layers from './layers.js';

/** @typedef {import('./layers.js').Heat} Heat */
/** @typedef {Partial<typeof import('./review_view.js').SHOW>} Shown */

/** Names of the changes that can be undone. @type {Record<string, string>} */
const WORDS = {
  heat: 'heat map',
  contour: 'contour',
  opacity: 'opacity',
  colours: 'colours',
  mask: 'lesion mask display',
  inside: 'region of the heat map',
  invert: 'inverted',
  window: 'window',
  nearest: 'nearest normal image',
  layout: 'panes',
};

export class Display {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {{heat: Heat | null, second: Heat | null}} the heat maps as fetched */
    this.raw = { heat: null, second: null };
    this.top = 255; // largest grey value of the image on screen
    this.timer = 0;
  }

  /** Changes the display, as an action of the reader that can be undone. @param {Shown} values */
  set(values) {
    const { history, show, detail } = this.review;
    const before = Object.fromEntries(Object.keys(values).map((key) => [key, Reflect.get(show, key)]));
    const changed = Object.entries(values).filter(([key, value]) => key in WORDS && before[key] !== value);
    if (changed.length) {
      const words = changed.map(([key]) => WORDS[key]).join(' and ');
      const [undo, redo] = [before, values].map((shown) => () => this.apply(shown));
      history.add({ words, kind: words, case: detail?.id, passing: 'window' in values, undo, redo });
    }
    return this.apply(values);
  }

  /** @param {Shown} values */
  async apply(values) {
    const { review } = this;
    const { show } = review;
    Object.assign(show, values);
    if ('inside' in values) {
      this.dress();
      review.threshold.settle();
    }
    for (const made of [review.heat, review.second]) if (made) layers.recolour(made, show.colours);
    review.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { window: _, invert: __, nearest: ___, ...keep } = show;
      post('/api/review/settings', { show: keep });
    }, 2000);
    if ('heat' in values && review.grid.on) review.grid.anew();
    if ('nearest' in values) await review.cases.fetchNearest();
    if (values.layout === 'compare' && review.detail && !review.detail.blind) {
      this.dress({ second: await review.cases.secondHeat(review.detail) });
      review.redraw();
    }
  }

  /** Returns the heat maps to show: in these colours, everywhere or only in the region of interest.
   * @param {Partial<{heat: Heat | null, second: Heat | null}>} [maps] */
  dress(maps = {}) {
    const { review } = this;
    const { picture, show, roi } = review;
    this.raw = { ...this.raw, ...maps };
    const made = (/** @type {Heat | null} */ map) =>
      map && picture ? layers.layer(map, picture, show.colours, show.inside ? roi : null) : null;
    review.put({ heat: made(this.raw.heat), second: made(this.raw.second) });
    if (review.second) layers.cutAt(review.second, review.threshold.step);
  }

  /** @param {Partial<import('./image.js').Window>} change */
  setWindow(change) {
    const window = { ...this.window(), name: 'own', ...change };
    window.width = Math.max(window.width, 1);
    return this.set({ window });
  }

  /** Prepares for another case: its full range, unless the reader keeps the window. */
  nextCase() {
    const { show, history } = this.review;
    history.forget((act) => Boolean(act.passing) && !(show.keepWindow && act.kind === WORDS.window));
    if (!show.keepWindow) show.window = null;
  }

  /** Returns the current window, or the image's full range. */
  window() {
    return this.review.show.window || this.review.picture?.full || { centre: 127.5, width: 255 };
  }

  /** Drops the window if the new image has another range of grey values. */
  newRange() {
    const top = this.review.picture?.top || 255;
    if (this.top !== top) this.review.show.window = null;
    this.top = top;
  }

  /** The presets that suit the image: in Hounsfield units, or fractions of its range. */
  presets() {
    const { detail, picture } = this.review;
    return windows(detail?.modality === 'CT' && Boolean(picture?.raw));
  }

  /** @param {string} name of a preset; '' is the full range */
  preset(name) {
    const { picture } = this.review;
    const chosen = this.presets().find((one) => one.name === name);
    if (chosen && picture) return this.setWindow({ ...windowOf(chosen, picture), name });
    return this.set({ window: null });
  }

  /** @param {string} layout */
  setLayout(layout) {
    return this.set({ layout });
  }
}
