// How a case is shown: colours, region, window and level, layout. Kept with the reader's settings.
import { post } from '../../../static/api.js';
import { el, fill } from '../../../static/dom.js';
import * as layers from './layers.js';
import { LAYOUTS } from './paint.js';
import { windowOf, windows } from './windows.js';

/** @typedef {import('./layers.js').Heat} Heat */

export class Display {
  /** @param {import('./review_view.js').ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {{heat: Heat | null, second: Heat | null}} the heat maps as they were fetched */
    this.raw = { heat: null, second: null };
    this.chosen = ''; // in the menu of windows
    this.top = 255; // largest grey value of the image on screen
    this.timer = 0;
  }

  /** @param {Partial<typeof import('./review_view.js').SHOW>} values */
  set(values) {
    const { review } = this;
    const { show } = review;
    Object.assign(show, values);
    for (const made of [review.heat, review.second]) if (made) layers.recolour(made, show.colours);
    review.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { window: _, invert: __, nearest: ___, ...keep } = show;
      post('/api/review/settings', { show: keep });
    }, 2000);
  }

  /** The heat maps as they are to be shown: in these colours, everywhere or in the region of interest alone.
   * @param {Partial<{heat: Heat | null, second: Heat | null}>} [maps] */
  dress(maps = {}) {
    const { review } = this;
    const { picture, show, roi } = review;
    this.raw = { ...this.raw, ...maps };
    const made = (/** @type {Heat | null} */ map) =>
      map && picture ? layers.layer(map, picture, show.colours, show.inside ? roi : null) : null;
    review.heat = made(this.raw.heat);
    review.second = made(this.raw.second);
    if (review.second) layers.cutAt(review.second, review.threshold.step);
  }

  /** @param {boolean} inside whether the heat map ends at the region of interest */
  setInside(inside) {
    this.set({ inside });
    this.dress();
    this.review.threshold.settle();
    this.review.redraw();
  }

  /** @param {Partial<import('./review_view.js').Window>} change */
  setWindow(change) {
    const { review } = this;
    const { show, side } = review;
    const window = { ...this.window(), ...change };
    window.width = Math.max(window.width, 1);
    show.window = window;
    side.level.set(window.centre);
    side.width.set(window.width);
    this.presetLabel('own');
    review.draw();
  }

  /** What the menu of windows says: a preset's number, 'own' for one set by hand, '' for the full range.
   * @param {string} value */
  presetLabel(value) {
    const { side, show } = this.review;
    this.chosen = value;
    side.presets.value = value;
    side.reset.disabled = !value;
    side.keep.setAttribute('aria-pressed', String(show.keepWindow));
  }

  /** Whether the window stays for the next cases. @param {boolean} keepWindow */
  keepWindow(keepWindow) {
    this.set({ keepWindow });
    this.presetLabel(this.chosen);
  }

  /** Another case comes: its own full range, unless the reader keeps the window. */
  nextCase() {
    const { show } = this.review;
    if (show.keepWindow || !show.window) return;
    show.window = null;
    this.chosen = '';
  }

  /** The window in use, or the image's full range. */
  window() {
    return this.review.show.window || this.review.picture?.full || { centre: 127.5, width: 255 };
  }

  windowControls() {
    const { picture, show, side } = this.review;
    const top = picture?.top || 255;
    side.level.range.max = side.width.range.max = String(top);
    if (this.top !== top) {
      show.window = null;
      this.chosen = '';
    }
    this.top = top;
    const now = this.window();
    side.level.set(now.centre);
    side.width.set(now.width);
    const names = windows(this.ct()).map((w) => w.name);
    fill(
      side.presets,
      el('option', { value: '' }, 'full range'),
      names.map((name, i) => el('option', { value: i }, name)),
      el('option', { value: 'own', hidden: true }, 'own window'),
    );
    this.presetLabel(show.window ? this.chosen : '');
  }

  // Whether grey values are Hounsfield units.
  ct() {
    return this.review.detail?.modality === 'CT' && Boolean(this.review.picture?.raw);
  }

  /** @param {string} value of the menu of windows; '' is the full range */
  preset(value) {
    const { review } = this;
    if (value === '' || !review.picture) {
      review.show.window = null;
      this.chosen = '';
      this.windowControls();
      review.draw();
      return;
    }
    this.setWindow(windowOf(windows(this.ct())[Number(value)], review.picture));
    this.presetLabel(value);
  }

  /** @param {string} layout */
  async setLayout(layout) {
    const { review } = this;
    if (!(layout in LAYOUTS)) return;
    this.set({ layout });
    review.arrange();
    if (layout === 'compare' && review.detail && !review.detail.blind) {
      this.dress({ second: await review.cases.secondHeat(review.detail) });
      review.named();
      review.draw();
    }
  }
}
