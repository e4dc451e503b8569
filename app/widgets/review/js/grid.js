// The worklist as a grid of pictures, in place of image and panel. Only visible tiles exist, and their pictures are
// fetched once scrolling stops.
import { get } from '../../../static/api.js';
import { submitted } from '../../../static/dialogs.js';
import { clamp, fixed, plural } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { html, show } from '../../../static/view.js';
import { inSight, layout, moved, Pages, Selection } from './grid_moves.js';
import { bare, choice, press, remarks, sign, tagsIn } from './parts.js';
import { nameOf } from './reference.js';
import { tagCases } from './tags.js';

const REST = 90; // milliseconds without a scroll after which pictures are fetched
const THROUGH = ['grid', 'help', 'heat']; // actions of the viewer that the grid has too
const SIZES = { small: 132, medium: 184, large: 280 };

export class Grid {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    this.on = false;
    this.at = 0; // of the cursor
    this.nonce = Symbol('load');
    this.loaded = /** @type {Promise<void> | undefined} */ (undefined);
    this.resting = 0;
    this.list = ''; // the filters and the order of the current list
    this.size = /** @type {keyof typeof SIZES} */ ('medium');
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
    this.box = $('.rv-tiles');
    this.box.onscroll = () => this.anew();
    this.box.onkeydown = (/** @type {KeyboardEvent} */ event) => this.pressed(event);
    this.box.onclick = (/** @type {MouseEvent} */ event) => this.clicked(event);
    this.box.ondblclick = (/** @type {MouseEvent} */ event) => !event.shiftKey && this.enter();
    $('.rv-chosen').onsubmit = submitted((given, form) => this.tag(given, form));
    $('.rv-tag-none').onclick = () => this.deselect();
    this.sizes = choice($('.rv-sizes'), (key) => this.resize(/** @type {keyof typeof SIZES} */ (key)));
    new ResizeObserver(() => this.anew()).observe(this.box);
  }

  /** Shows the grid, or the viewer again. @param {boolean} on @param {boolean} [keep] whether to store the choice */
  async show(on, keep = false) {
    const { review } = this;
    if (keep) review.display.set({ listing: on ? 'grid' : 'list' });
    if (this.on === on) return;
    this.on = on;
    review.$('.rv-grid').hidden = !on;
    shownCase.value = on ? null : (review.detail?.id ?? null);
    review.redraw();
    review.overview.draw();
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
    review.$('.rv-grid > .rv-none').hidden = overview.total > 0;
    this.at = Math.min(place?.ok ? (place.at ?? 0) : 0, Math.max(overview.total - 1, 0));
    await this.pages.ensure(this.at, this.at + 1);
    if (nonce !== this.nonce) return;
    this.anew();
    this.reach(this.at, true);
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
    this.shape = layout(clientWidth - left - right, SIZES[this.size]);
    this.draw();
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.rest(), REST);
  }

  /** @param {keyof typeof SIZES} size */
  resize(size) {
    this.size = size;
    this.anew();
    this.reach(this.at, true);
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

  /** Draws the visible tiles; above them the cursor's position, and the number of selected cases and their tags. */
  draw() {
    const { at, box, pages, review, selection } = this;
    const { $ } = review;
    const chosen = selection.ids.size;
    show(box, Tiles, { grid: this });
    box.setAttribute('aria-activedescendant', `rv-tile-${at}`);
    $('.rv-where').textContent = pages.total ? `${at + 1} of ${pages.total}` : '';
    $('.rv-chosen').hidden = !chosen;
    $('.rv-hint').hidden = chosen > 0;
    $('.rv-chosen b').textContent = `${chosen} selected`;
    $('.rv-grid-heat').hidden = Boolean(review.setup?.blinded);
    press($('.rv-grid-heat'), review.show.heat);
    this.sizes(this.size);
    review.overview.draw();
  }

  /** Moves the cursor to a tile and into view. @param {number} at @param {boolean} [middle] */
  reach(at, middle = false) {
    const { box, shape, pages } = this;
    if (!pages.total) return;
    this.at = clamp(at, 0, pages.total - 1);
    const top = Math.floor(this.at / shape.columns) * shape.row;
    const height = box.clientHeight;
    if (middle) box.scrollTop = top - (height - shape.row) / 2;
    else if (top < box.scrollTop) box.scrollTop = top;
    else if (top + shape.row > box.scrollTop + height) box.scrollTop = top + shape.row - height;
    this.anew();
  }

  /** Moves the cursor, which ends a range. @param {number} at @param {boolean} [middle] */
  go(at, middle) {
    this.selection.anchor = null;
    this.reach(at, middle);
  }

  /** @param {number} from @param {number} to */
  async extend(from, to) {
    const { selection, pages, nonce } = this;
    const start = selection.anchor?.at ?? from;
    await pages.ensure(Math.min(start, to), Math.max(start, to) + 1);
    if (nonce !== this.nonce) return;
    selection.extend(from, to, (at) => pages.row(at)?.id);
    this.reach(to);
  }

  /** @param {number} at */
  toggle(at) {
    const row = this.pages.row(at);
    if (row) this.selection.toggle(row.id, at);
    this.reach(at);
  }

  deselect() {
    this.selection.clear();
    this.draw();
  }

  /** Adds a tag to the selected cases, or removes it. @param {FormData} given @param {HTMLFormElement} form */
  async tag(given, form) {
    const { box, review, selection } = this;
    const remove = given.has('remove');
    const done = await tagCases(review, [...selection.ids], String(given.get('tag')), remove);
    if (!done) return;
    form.reset();
    const what = remove ? `“${done.tag}” removed from` : `“${done.tag}” added to`;
    review.say(`${what} ${plural(done.changed, 'case')}.`, 'good');
    box.focus({ preventScroll: true });
  }

  /**
   * Answers a question about the current list; repeated if the list was reloaded meanwhile, so that no key is lost.
   * @template T @param {() => Promise<T>} ask @returns {Promise<T | null>} null: there is no such list now
   */
  async ofList(ask) {
    const { study } = this.review;
    while (this.on && this.review.study === study) {
      await this.loaded;
      const { nonce } = this;
      const answer = await ask();
      if (nonce === this.nonce) return answer;
    }
    return null;
  }

  /** Opens the case under the cursor in the viewer. */
  async enter() {
    const { pages, review } = this;
    await this.ofList(() => pages.ensure(this.at, this.at + 1)); // its rows may still be loading
    const row = pages.row(this.at);
    if (!row || !this.on) return;
    this.show(false);
    await review.goTo(row.id);
  }

  /** Goes to the next unread case after the cursor. */
  async unread() {
    const { review, pages } = this;
    const params = () => ({ ...review.list.params(), case: pages.row(this.at)?.id, unread: 1 });
    const found = await this.ofList(() => get('/api/review/place', params()));
    if (!found) return;
    if (!found.ok) return review.say(found.error, 'bad');
    if (found.at === null) return review.say('Every case in this list is decided.');
    this.go(found.at, true);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { shape, pages, box, at, selection } = this;
    const to = moved(event.key, at, pages.total, shape, Math.floor(box.clientHeight / shape.row));
    if (to !== null) {
      if (event.shiftKey) this.extend(at, to);
      else this.go(to);
    } else if (event.key === 'Enter') this.enter();
    else if (event.key === ' ' && event.shiftKey) this.toggle(at);
    else if (event.key === ' ') this.unread();
    else if (event.key.toLowerCase() === 't') {
      if (!selection.ids.size) this.toggle(at);
      this.review.$('.rv-chosen input').focus();
    } else if (event.key === 'Escape' && selection.ids.size) this.deselect();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target : null;
    const tile = target?.closest('.rv-tile');
    if (!tile) return;
    const at = Number(tile.getAttribute('data-at'));
    if (event.shiftKey) this.extend(this.at, at);
    else if (event.ctrlKey || event.metaKey || target?.hasAttribute('data-pick')) this.toggle(at);
    else this.go(at);
  }

  /** Handles a key or a button of the viewer while the grid is shown; false: as in the viewer. @param {string} name */
  act(name) {
    if (!this.on || THROUGH.includes(name)) return false;
    if (name === 'unread') this.unread();
    else if (name === 'next') this.reach(this.at + 1);
    else if (name === 'previous') this.reach(this.at - 1);
    else if (name.length > 1 && name !== 'Enter' && name !== 'Escape')
      this.review.say('Open the case first (Enter), then do this on the image.');
    return true;
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
  const name = nameOf(review, row);
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
