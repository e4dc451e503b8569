// The worklist as a grid of pictures, in place of image and panel. Only visible tiles exist, and their pictures are
// fetched once scrolling stops.
import { get } from '../../../static/api.js';
import { el, fill } from '../../../static/dom.js';
import { fixed } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { dom } from '../../../static/view.js';
import { clicked, enter, inSight, layout, Pages, pressed, reach, Selection, selectionBar } from './grid_moves.js';
import { signs } from './list.js';
import { MARK } from './parts.js';
import { rowName } from './reference.js';
import { chips, tagsOf } from './tags.js';

const REST = 90; // milliseconds without a scroll after which pictures are fetched
const SIZES = { small: 132, medium: 184, large: 280 };

export class Grid {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    this.on = false;
    this.at = 0; // of the cursor
    this.nonce = Symbol('load');
    /** @type {Promise<void> | undefined} */
    this.loaded = undefined;
    this.resting = 0;
    this.list = ''; // the filters and the order of the current list
    this.wanted = SIZES.medium;
    this.shape = layout(1, 1);
    /** @type {Set<string>} addresses of pictures that the browser has */
    this.seen = new Set();
    this.selection = new Selection();
    /** @type {Map<number, HTMLElement>} */
    this.tiles = new Map();
    /** @type {Pages<Answers.WorklistRow>} */
    this.pages = new Pages(async (at, limit) => {
      const found = await get('/api/review/list', { ...review.list.params(), at, limit });
      return found.ok ? found.rows : null;
    });
    const { $ } = review;
    this.element = $('.rv-grid');
    this.none = $('.rv-grid > .rv-none');
    this.box = $('.rv-tiles');
    this.space = $('.rv-space');
    this.box.onscroll = () => this.draw();
    this.box.onkeydown = (/** @type {KeyboardEvent} */ event) => pressed(this, event);
    this.box.onclick = (/** @type {MouseEvent} */ event) => clicked(this, event);
    this.box.ondblclick = (/** @type {MouseEvent} */ event) => !event.shiftKey && enter(this);
    this.bar = selectionBar(this);
    new ResizeObserver(() => this.sized()).observe(this.box);
  }

  /** Shows the grid, or the viewer again. @param {boolean} on @param {boolean} [keep] whether to store the choice */
  async show(on, keep = false) {
    const { review } = this;
    if (keep) review.display.set({ listing: on ? 'grid' : 'list' });
    if (this.on === on) return;
    this.on = on;
    this.element.hidden = !on;
    shownCase.value = on ? null : (review.detail?.id ?? null);
    review.redraw();
    if (!on) return review.$('.rv-view').focus({ preventScroll: true });
    this.pages.reset(0);
    await this.load();
    this.box.focus({ preventScroll: true });
  }

  /** Shows nothing until the next list has arrived. */
  clear() {
    this.nonce = Symbol('load');
    this.pages.reset(0);
    this.anew();
  }

  /** Reloads the list after a change of filters, order or study. The cursor stays with its case; at first it goes to
   * the one in the viewer. */
  load() {
    this.loaded = this.on ? this.fetched() : undefined;
    return this.loaded;
  }

  async fetched() {
    const { review } = this;
    const nonce = (this.nonce = Symbol('load'));
    const params = review.list.params();
    const coming = review.overview.load();
    const current = () => this.pages.row(this.at)?.id ?? review.detail?.id;
    let here;
    let overview;
    let place;
    do {
      here = current();
      const asked = here ? get('/api/review/place', { ...params, case: here }) : null;
      [overview, place] = await Promise.all([coming, asked]);
      if (nonce !== this.nonce || !overview) return;
    } while (here !== current()); // the cursor was moved meanwhile
    const list = JSON.stringify(params);
    if (list !== this.list) this.selection.clear(); // of another list; a reloaded list keeps it
    this.list = list;
    this.pages.reset(overview.total);
    this.none.hidden = overview.total > 0;
    this.at = Math.min(place?.ok ? (place.at ?? 0) : 0, Math.max(overview.total - 1, 0));
    await this.pages.ensure(this.at, this.at + 1);
    if (nonce !== this.nonce) return;
    this.anew();
    reach(this, this.at, true);
  }

  /** Redraws all tiles. */
  anew() {
    for (const at of this.tiles.keys()) this.drop(at);
    this.sized();
    this.bar.reflect();
  }

  sized() {
    const { clientWidth, clientHeight } = this.box;
    if (!this.on || !clientWidth || !clientHeight) return;
    const style = getComputedStyle(this.box);
    const [left, right] = [style.paddingLeft, style.paddingRight].map(Number.parseFloat);
    this.shape = layout(clientWidth - left - right, this.wanted);
    const rows = Math.ceil(this.pages.total / this.shape.columns);
    this.space.style.height = `${Math.max(0, rows * this.shape.row - this.shape.gap)}px`;
    for (const [at, element] of this.tiles) this.lay(element, at);
    this.draw();
  }

  /** @param {'small' | 'medium' | 'large'} size */
  resize(size) {
    this.wanted = SIZES[size];
    this.anew();
    reach(this, this.at, true);
  }

  /** @param {HTMLElement} element @param {number} at */
  lay(element, at) {
    const { columns, tile: width, picture, row, gap } = this.shape;
    const x = (at % columns) * (width + gap);
    Object.assign(element.style, {
      transform: `translate(${x}px, ${Math.floor(at / columns) * row}px)`,
      width: `${width}px`,
      height: `${row - gap}px`,
    });
    element.style.setProperty('--picture', `${picture}px`);
  }

  /** Adds the tiles that have become visible, and removes the others. */
  draw() {
    if (!this.on) return;
    const [first, last] = inSight(this.shape, this.box.scrollTop, this.box.clientHeight, this.pages.total);
    for (const at of this.tiles.keys()) if (at < first || at >= last) this.drop(at);
    for (let at = first; at < last; at += 1) if (!this.tiles.has(at)) this.put(at);
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.rest(first, last), REST);
  }

  /** Fetches rows and pictures of the visible tiles. @param {number} first @param {number} last */
  async rest(first, last) {
    const { nonce } = this;
    const missing = () => [...this.tiles].filter(([, element]) => element.classList.contains('waits'));
    if (missing().length) {
      await this.pages.ensure(first, last);
      if (nonce !== this.nonce) return;
      for (const [at] of missing()) if (this.pages.row(at)) this.renew(at);
    }
    for (const image of this.space.querySelectorAll('img[data-src]')) {
      const src = image.getAttribute('data-src') || '';
      image.addEventListener('load', () => this.seen.add(src), { once: true });
      image.setAttribute('src', src);
      image.removeAttribute('data-src');
    }
  }

  /** @param {number} at */
  put(at) {
    const row = this.pages.row(at);
    const selected = Boolean(row && this.selection.ids.has(row.id));
    const where = { at, total: this.pages.total, side: this.shape.tile, selected, now: at === this.at };
    const element = tile(this.review, row, where);
    const image = element.querySelector('img');
    const src = image?.getAttribute('data-src') || '';
    if (this.seen.has(src)) image?.setAttribute('src', src);
    this.lay(element, at);
    this.tiles.set(at, element);
    this.space.append(element);
  }

  /** Cancels the picture of a tile that is no longer visible. @param {number} at */
  drop(at) {
    const element = this.tiles.get(at);
    element?.querySelector('img')?.removeAttribute('src');
    element?.remove();
    this.tiles.delete(at);
  }

  /** @param {number} at */
  renew(at) {
    if (!this.tiles.has(at)) return;
    this.drop(at);
    this.put(at);
  }

  /** Updates tiles whose tags have changed. @param {number[]} ids */
  retagged(ids) {
    for (const at of [...this.tiles.keys()]) if (ids.includes(this.pages.row(at)?.id ?? 0)) this.renew(at);
    if (this.on) this.rest(0, 0);
  }

  /** Marks the selection and the cursor without redrawing a tile. */
  mark() {
    for (const [at, element] of this.tiles) {
      const row = this.pages.row(at);
      element.setAttribute('aria-selected', String(Boolean(row && this.selection.ids.has(row.id))));
      element.toggleAttribute('data-now', at === this.at);
    }
    this.box.setAttribute('aria-activedescendant', `rv-tile-${this.at}`);
    this.bar.reflect();
    this.review.overview.mark();
  }
}

// One tile: a small picture with its heat map, and the case's data from the list.
const SIDES = [192, 320, 512]; // sizes in which pictures are requested: few, so that the browser's cache is used

/** A tile picture's address. @param {ReviewView} review @param {Answers.WorklistRow} row @param {number} side in CSS pixels */
function address({ run, show }, row, side) {
  const wanted = side * Math.min(devicePixelRatio || 1, 2);
  const size = SIDES.find((s) => s >= wanted) || SIDES[SIDES.length - 1];
  const heat = show.heat && run && row.map ? `&run=${encodeURIComponent(run)}&m=${encodeURIComponent(row.map)}` : '';
  return `./api/case/${row.id}/tile.webp?size=${size}&v=${row.v}${heat}`;
}

/** @param {ReviewView} review @param {Answers.WorklistRow | undefined} row undefined while its page is loading @param {{at: number,
 * total: number, side: number, selected: boolean, now: boolean}} where */
function tile(review, row, { at, total, side, selected, now }) {
  const element = dom`
    <div id="rv-tile-${at}" class="rv-tile${row?.flagged ? ' flagged' : ''}${row ? '' : ' waits'}" role="option"
      aria-selected=${String(selected)} aria-posinset=${at + 1} aria-setsize=${total}
      data-at=${at} data-id=${row?.id} data-now=${now} />`;
  if (!row) return fill(element, el('span', { class: 'rv-picture' }));
  const what = row.decision || 'unread';
  const name = rowName(review, row);
  const said = [name, what, row.percentile != null && `${fixed(row.percentile, 1)} %`, row.flagged && 'flagged'];
  element.setAttribute('aria-label', said.filter(Boolean).join(', '));
  element.title = name;
  const content = dom`<span class="rv-picture">
      <img data-src=${address(review, row, side)} alt="" decoding="async" draggable="false" />
      <span class="rv-pick" data-pick title="Select (Shift+Space)" />
      <span class="rv-mark ${what}" title=${what}>${row.decision && MARK[row.decision]}</span>
      ${signs(review, row)}${chips(tagsOf(review, row, Boolean(row.decision)), 2)}
    </span>
    <span class="rv-caption-line">
      <span class="rv-front">${name.replace(/\.[a-z]{2,5}$/i, '')}</span>
      <span class="rv-pct num" title=${row.flagged ? 'Flagged' : ''}>${fixed(row.percentile, 1)}</span>
    </span>`;
  return fill(element, content);
}
