// The worklist as a grid of pictures, in place of image and panel. Only visible tiles exist, and their pictures are
// fetched once scrolling stops.
import { get } from '../../../static/api.js';
import { fixed } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { html, show } from '../../../static/view.js';
import { clicked, enter, inSight, layout, Pages, pressed, reach, Selection, selectionBar } from './grid_moves.js';
import { bare, remarks, sign, tagsIn } from './parts.js';
import { rowName } from './reference.js';

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
    this.rested = [0, 0]; // the tiles that were visible when scrolling stopped: [first, one past the last]
    /** @type {Set<string>} addresses of pictures that the browser has */
    this.seen = new Set();
    this.selection = new Selection();
    /** @type {Pages<Answers.WorklistRow>} */
    this.pages = new Pages(async (at, limit) => {
      const found = await get('/api/review/list', { ...review.list.params(), at, limit });
      return found.ok ? found.rows : null;
    });
    const { $ } = review;
    this.element = $('.rv-grid');
    this.none = $('.rv-grid > .rv-none');
    this.box = $('.rv-tiles');
    this.box.onscroll = () => this.anew();
    this.box.onkeydown = (/** @type {KeyboardEvent} */ event) => pressed(this, event);
    this.box.onclick = (/** @type {MouseEvent} */ event) => clicked(this, event);
    this.box.ondblclick = (/** @type {MouseEvent} */ event) => !event.shiftKey && enter(this);
    this.bar = selectionBar(this);
    new ResizeObserver(() => this.anew()).observe(this.box);
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
    this.clear();
    await this.load();
    this.box.focus({ preventScroll: true });
  }

  /** Shows nothing until the next list has arrived. */
  clear() {
    this.nonce = Symbol('load');
    this.pages.reset(0);
    this.draw();
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

  /** Returns the visible tiles: [first, one past the last]. */
  get sight() {
    return inSight(this.shape, this.box.scrollTop, this.box.clientHeight, this.pages.total);
  }

  /** Lays out the tiles; once nothing has moved for a moment, their rows and pictures are fetched. */
  anew() {
    const { clientWidth, clientHeight } = this.box;
    if (!this.on || !clientWidth || !clientHeight) return;
    const style = getComputedStyle(this.box);
    const [left, right] = [style.paddingLeft, style.paddingRight].map(Number.parseFloat);
    this.shape = layout(clientWidth - left - right, this.wanted);
    this.draw();
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.rest(), REST);
  }

  /** @param {'small' | 'medium' | 'large'} size */
  resize(size) {
    this.wanted = SIZES[size];
    this.anew();
    reach(this, this.at, true);
  }

  /** Fetches rows and pictures of the visible tiles. */
  async rest() {
    const { nonce } = this;
    const [first, last] = this.sight;
    await this.pages.ensure(first, last);
    if (nonce !== this.nonce) return;
    this.rested = [first, last];
    this.draw();
  }

  /** Shows tags that have changed. @param {number[]} _cases */
  retagged(_cases) {
    if (this.on) this.draw();
  }

  /** Draws the visible tiles, and what is above them. */
  draw() {
    show(this.box, Tiles, { grid: this });
    this.box.setAttribute('aria-activedescendant', `rv-tile-${this.at}`);
    this.bar.reflect();
    this.review.overview.draw();
  }
}

/** The tiles in sight, in a space as high as all of them. @param {{grid: Grid}} props */
function Tiles({ grid }) {
  const { shape, pages } = grid;
  const { columns, tile, picture, row, gap } = shape;
  const [first, last] = grid.sight;
  const style = {
    height: `${Math.max(0, Math.ceil(pages.total / columns) * row - gap)}px`,
    paddingTop: `${(first / columns) * row}px`,
    grid: `auto-flow ${row - gap}px / repeat(${columns}, ${tile}px)`,
    gap: `${gap}px`,
    '--picture': `${picture}px`,
  };
  const shown = Array.from({ length: last - first }, (_, i) => {
    const at = first + i;
    const one = pages.row(at);
    return html`<${Tile} key=${one ? `case ${one.id}` : at} grid=${grid} at=${at} row=${one} />`;
  });
  return html`<div class="rv-space" role="presentation" style=${style}>${shown}</div>`;
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

/** Cancels the picture of a tile that is no longer visible. @param {HTMLImageElement} image */
const cancelled = (image) => () => image.removeAttribute('src');

/** row: undefined while its page is loading. @param {{grid: Grid, at: number, row: Answers.WorklistRow | undefined}} props */
function Tile({ grid, at, row }) {
  const { review, pages, selection, shape, rested, seen } = grid;
  const look = {
    id: `rv-tile-${at}`,
    class: `rv-tile ${row?.flagged ? 'flagged' : ''} ${row ? '' : 'waits'}`,
    role: 'option',
    'aria-selected': Boolean(row && selection.ids.has(row.id)),
    'aria-posinset': at + 1,
    'aria-setsize': pages.total,
    'data-at': at,
    'data-now': at === grid.at ? '' : null,
  };
  if (!row) return html`<div ...${look}><span class="rv-picture" /></div>`;
  const name = rowName(review, row);
  const percentile = row.percentile != null && `${fixed(row.percentile, 1)} %`;
  const said = [name, row.decision || 'unread', percentile, row.flagged && 'flagged'].filter(Boolean).join(', ');
  const src = address(review, row, shape.tile);
  const ready = seen.has(src) || (at >= rested[0] && at < rested[1]);
  return html`<div ...${look} data-id=${row.id} aria-label=${said} title=${name}>
    <span class="rv-picture">
      <img src=${ready ? src : null} onLoad=${() => seen.add(src)} ref=${cancelled} alt="" decoding="async" draggable=${false} />
      <span class="rv-pick" data-pick title="Select (Shift+Space)" />
      ${sign(row.decision)}${remarks(review, row)}${tagsIn(review, row)}
    </span>
    <span class="rv-caption-line">
      <span class="rv-front">${bare(name)}</span>
      <span class="rv-pct num" title=${row.flagged ? 'Flagged' : ''}>${fixed(row.percentile, 1)}</span>
    </span>
  </div>`;
}
