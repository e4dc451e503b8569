// The grid's rows of tiles, of which only visible ones exist, its cursor and its selection. No element is touched here.

const GAP = 10; // CSS pixels between tiles
const CAPTION = 26; // below a tile's picture

/** @typedef {ReturnType<typeof layout>} Layout */

/** How tiles of about `wanted` pixels fill a width, all in CSS pixels; row: from one row's top to the next one's.
 * @param {number} width @param {number} wanted */
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
  /** @type {Set<number>} */
  ids = new Set();
  /** @type {{at: number, before: Set<number>} | null} start of a range, and the selection at that time */
  anchor = null;

  clear() {
    this.ids = new Set();
    this.anchor = null;
  }

  /** @param {number} id @param {number} at */
  toggle(id, at) {
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
    if (!rows) asked.delete(at);
    rows?.forEach((row, i) => (this.rows[at + i] = row));
  }
}
