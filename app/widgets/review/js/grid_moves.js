// Keys and clicks in the grid: the cursor, the selection and its tags, opening the viewer.
import { get } from '../../../static/api.js';
import { el, fill, finder, onEnter } from '../../../static/dom.js';
import { plural } from '../../../static/format.js';
import { choice, press } from './parts.js';
import { tagCases } from './tags.js';

/** @typedef {import('./grid.js').Grid} Grid */

const THROUGH = ['grid', 'help', 'heat']; // actions of the viewer that the grid has too

/** Moves the cursor to a tile and into view. @param {Grid} grid @param {number} at @param {boolean} [middle] */
export function reach(grid, at, middle = false) {
  const { box, shape, pages } = grid;
  if (!pages.total) return;
  grid.at = Math.max(0, Math.min(at, pages.total - 1));
  const top = Math.floor(grid.at / shape.columns) * shape.row;
  const height = box.clientHeight;
  if (middle) box.scrollTop = top - (height - shape.row) / 2;
  else if (top < box.scrollTop) box.scrollTop = top;
  else if (top + shape.row > box.scrollTop + height) box.scrollTop = top + shape.row - height;
  grid.anew();
}

/** @param {Grid} grid @param {number} from @param {number} to */
async function extend(grid, from, to) {
  const { selection, pages, nonce } = grid;
  const start = selection.anchor?.at ?? from;
  await pages.ensure(Math.min(start, to), Math.max(start, to) + 1);
  if (nonce !== grid.nonce) return;
  selection.extend(from, to, (at) => pages.row(at)?.id);
  reach(grid, to);
}

/** @param {Grid} grid @param {number} at */
function toggle(grid, at) {
  const row = grid.pages.row(at);
  if (row) grid.selection.toggle(row.id, at);
  reach(grid, at);
}

/**
 * Answers a question about the current list; repeated if the list was reloaded meanwhile, so that no key is lost.
 * @template T @param {Grid} grid @param {() => Promise<T>} ask @returns {Promise<T | null>} null: there is no such list now
 */
async function ofList(grid, ask) {
  const { study } = grid.review;
  while (grid.on && grid.review.study === study) {
    await grid.loaded;
    const { nonce } = grid;
    const answer = await ask();
    if (nonce === grid.nonce) return answer;
  }
  return null;
}

/** Opens the case under the cursor in the viewer. @param {Grid} grid */
export async function enter(grid) {
  const { pages } = grid;
  await ofList(grid, () => pages.ensure(grid.at, grid.at + 1)); // its rows may still be loading
  const row = pages.row(grid.at);
  if (!row || !grid.on) return;
  grid.show(false);
  await grid.review.goTo(row.id);
}

/** Goes to the next unread case after the cursor. @param {Grid} grid */
export async function unread(grid) {
  const { review, pages } = grid;
  const params = () => ({ ...review.list.params(), case: pages.row(grid.at)?.id, unread: 1 });
  const found = await ofList(grid, () => get('/api/review/place', params()));
  if (!found) return;
  if (!found.ok) return review.say(found.error, 'bad');
  if (found.at === null) return review.say('Every case in this list is decided.');
  grid.selection.anchor = null;
  reach(grid, found.at, true);
}

/** @param {Grid} grid @param {KeyboardEvent} event */
export function pressed(grid, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { shape, pages, box, at, selection } = grid;
  const to = moved(event.key, at, pages.total, shape, Math.floor(box.clientHeight / shape.row));
  if (to !== null) {
    if (event.shiftKey) extend(grid, at, to);
    else {
      selection.anchor = null;
      reach(grid, to);
    }
  } else if (event.key === 'Enter') enter(grid);
  else if (event.key === ' ' && event.shiftKey) toggle(grid, at);
  else if (event.key === ' ') unread(grid);
  else if (event.key.toLowerCase() === 't') {
    if (!selection.ids.size) toggle(grid, at);
    grid.bar.take();
  } else if (event.key === 'Escape' && selection.ids.size) {
    selection.clear();
    grid.draw();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

/** @param {Grid} grid @param {MouseEvent} event */
export function clicked(grid, event) {
  const target = event.target instanceof Element ? event.target : null;
  const tile = target?.closest('.rv-tile');
  if (!tile) return;
  const at = Number(tile.getAttribute('data-at'));
  if (event.shiftKey) extend(grid, grid.at, at);
  else if (event.ctrlKey || event.metaKey || target?.hasAttribute('data-pick')) toggle(grid, at);
  else {
    grid.selection.anchor = null;
    reach(grid, at);
  }
}

/** Handles a key or a button of the viewer while the grid is shown; false: as in the viewer.
 * @param {Grid} grid @param {string} name */
export function actInGrid(grid, name) {
  if (!grid.on || THROUGH.includes(name)) return false;
  if (name === 'unread') unread(grid);
  else if (name === 'next') reach(grid, grid.at + 1);
  else if (name === 'previous') reach(grid, grid.at - 1);
  else if (name.length > 1 && name !== 'Enter' && name !== 'Escape')
    grid.review.say('Open the case first (Enter), then do this on the image.');
  return true;
}

/** Above the tiles: the number of selected cases and their tags, the cursor's position, the size of the tiles.
 * @param {Grid} grid */
export function selectionBar(grid) {
  const { review } = grid;
  const $ = finder(review.$('.rv-grid-top'));
  const name = $('input');
  const put = async (/** @type {boolean} */ remove) => {
    const cases = [...grid.selection.ids];
    const done = await tagCases(review, cases, name.value, remove);
    if (!done) return;
    name.value = '';
    const what = remove ? `“${done.tag}” removed from` : `“${done.tag}” added to`;
    review.say(`${what} ${plural(done.changed, 'case')}.`, 'good');
    grid.box.focus({ preventScroll: true });
  };
  onEnter(name, () => put(false));
  $('.rv-tag-on').onclick = () => put(false);
  $('.rv-tag-off').onclick = () => put(true);
  $('.rv-tag-none').onclick = () => {
    grid.selection.clear();
    grid.draw();
  };
  const sizes = choice($('.rv-sizes'), (key) => {
    sizes(key);
    grid.resize(/** @type {'small' | 'medium' | 'large'} */ (key));
  });
  sizes('medium');
  return {
    take: () => name.focus(),
    reflect() {
      const { selection, pages, at } = grid;
      const chosen = selection.ids.size;
      $('.rv-where').textContent = pages.total ? `${at + 1} of ${pages.total}` : '';
      $('.rv-chosen').hidden = !chosen;
      $('.rv-hint').hidden = Boolean(chosen);
      $('b').textContent = `${chosen} selected`;
      $('.rv-grid-heat').hidden = Boolean(review.setup?.blinded);
      press($('.rv-grid-heat'), review.show.heat);
      const option = (/** @type {{tag: string}} */ { tag }) => el('option', { value: tag });
      fill($('datalist'), (review.overview.got?.tags || []).map(option));
    },
  };
}

// Rows of tiles of which only visible ones exist, the cursor, and the selection. No element is touched here.

const GAP = 10; // CSS pixels between tiles
const CAPTION = 26; // below a tile's picture

/** @typedef {{columns: number, tile: number, picture: number, row: number, gap: number}} Layout in CSS pixels; row: from
 *   one row's top to the next one's */

/** How tiles of about `wanted` pixels fill a width. @param {number} width @param {number} wanted @returns {Layout} */
export function layout(width, wanted) {
  const columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
  const tile = Math.floor((width - GAP * (columns - 1)) / columns);
  const picture = Math.round(tile * 0.8);
  return { columns, tile, picture, row: picture + CAPTION + GAP, gap: GAP };
}

/** Returns the visible tiles, and `extra` rows before and after them: [first, one past the last].
 * @param {Layout} layout @param {number} top scroll position of the view @param {number} height of the view @param
 * {number} total @param {number} [extra] */
export function inSight({ columns, row }, top, height, total, extra = 1) {
  const first = Math.max(0, Math.floor(top / row) - extra) * columns;
  const last = Math.min(total, (Math.ceil((top + height) / row) + extra) * columns);
  return [Math.min(first, total), Math.max(last, 0)];
}

/** Returns where the list's page with tile `at` begins, so that one scroll sends one request. @param {number} at */
export const pageOf = (at, size = 100) => Math.floor(at / size) * size;

/** Returns where a key moves the cursor; null for a key that does not move it.
 * @param {string} key @param {number} at @param {number} total @param {{columns: number}} layout @param {number} rows
 * that are visible */
export function moved(key, at, total, { columns }, rows) {
  const page = columns * Math.max(1, rows - 1);
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page, PageDown: page };
  if (key === 'Home') return 0;
  if (key === 'End') return total - 1;
  const step = Reflect.get(by, key);
  if (!step) return null;
  const to = at + step;
  if (to >= 0 && to < total) return to;
  if (Math.abs(step) === 1 || key === 'ArrowUp') return at;
  // Downwards past the end: the last case, unless the cursor is in the last row already.
  if (key === 'ArrowDown') return Math.floor(at / columns) < Math.floor((total - 1) / columns) ? total - 1 : at;
  return to < 0 ? at % columns : total - 1;
}

/** The selected cases, by number; a range grows and shrinks from its anchor. */
export class Selection {
  constructor() {
    /** @type {Set<number>} */
    this.ids = new Set();
    /** @type {{at: number, before: Set<number>} | null} start of a range, and the selection at that time */
    this.anchor = null;
  }

  clear() {
    this.ids = new Set();
    this.anchor = null;
  }

  /** @param {number} id @param {number} at */
  toggle(id, at) {
    this.anchor = null;
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = { at, before: new Set(this.ids) };
  }

  /** Selects from the anchor to `to`; a range that begins without an anchor begins at `from`.
   * @param {number} from @param {number} to @param {(at: number) => number | undefined} idAt undefined for a row that
   * is not loaded yet */
  extend(from, to, idAt) {
    this.anchor ||= { at: from, before: new Set(this.ids) };
    this.ids = new Set(this.anchor.before);
    const [lo, hi] = [Math.min(this.anchor.at, to), Math.max(this.anchor.at, to)];
    for (let at = lo; at <= hi; at += 1) {
      const id = idAt(at);
      if (id !== undefined) this.ids.add(id);
    }
  }
}

/** Rows of a long list, fetched in pages as they become visible; each page is fetched once. @template {{id: number}} R */
export class Pages {
  /** @param {(at: number, limit: number) => Promise<R[] | null>} fetch rows from `at` on; null if it failed */
  constructor(fetch, size = 100) {
    this.fetch = fetch;
    this.size = size;
    this.total = 0;
    /** @type {R[]} */
    this.rows = [];
    /** @type {Map<number, Promise<void>>} by the page's beginning */
    this.asked = new Map();
  }

  /** @param {number} total */
  reset(total) {
    this.total = total;
    this.rows = [];
    this.asked = new Map();
  }

  /** @param {number} at @returns {R | undefined} */
  row(at) {
    return this.rows[at];
  }

  /** @param {number} id */
  find(id) {
    return this.rows.find((row) => row?.id === id);
  }

  /** Fetches the missing rows from `first` to before `last`. @param {number} first @param {number} last */
  async ensure(first, last) {
    const waits = [];
    for (let at = pageOf(first, this.size); at < Math.min(last, this.total); at += this.size) {
      if (!this.asked.has(at)) this.asked.set(at, this.page(at));
      waits.push(this.asked.get(at));
    }
    await Promise.all(waits);
  }

  /** @param {number} at */
  async page(at) {
    const { asked } = this;
    const rows = await this.fetch(at, this.size);
    if (asked !== this.asked) return; // the list has been replaced
    if (rows)
      rows.forEach((row, i) => {
        this.rows[at + i] = row;
      });
    else asked.delete(at);
  }
}
