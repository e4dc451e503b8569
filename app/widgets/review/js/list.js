// The worklist: rows are fetched page by page as the reader scrolls; the server orders and filters.
import { signal } from '@preact/signals';
import { get } from '../../../static/api.js';
import { fixed } from '../../../static/format.js';
import { button, html, show } from '../../../static/view.js';
import { filters, NOTHING } from './list_filters.js';
import { bare, DECISIONS, inMiddle, remarks, sign, tagsIn } from './parts.js';
import { nameOf } from './reference.js';
import { SessionBar } from './session.js';

/** @typedef {{row: Answers.WorklistRow, changes: import('@preact/signals').Signal<number>}} Held changes: redraws the row alone */

const NONE = 'This study has no test cases yet.';
const SKELETON = Array.from({ length: 8 }, () => html`<div class="rv-row skeleton"><span /><span /></div>`);

/** Says whether more than half of the rows are above all held-out normals. @param {Answers.WorklistRow[]} rows */
export function alike(rows) {
  const known = rows.flatMap(({ percentile }) => (percentile == null ? [] : [percentile.toFixed(1)]));
  const most = known.filter((p) => p === '100.0').length;
  return known.length > 3 && most > known.length / 2;
}

export class Worklist {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {Map<number, Held>} */
    this.rows = new Map();
    this.none = ''; // why there are no rows; empty while they are coming
    /** @type {import('./list_filters.js').Asked} */
    this.asked = { ...NOTHING };
    this.counts = /** @type {Answers.Counts | null} */ (null);
    this.cursor = /** @type {unknown[] | null} */ (null); // start of the next page
    this.loading = false;
    this.byScore = false; // percentiles do not distinguish the rows
    this.nonce = Symbol('load');
    this.counting = /** @type {symbol | null} */ (null); // the newest request for the counts, until it is answered
    this.changes = signal(0); // of the counts and the drafts
    this.filters = filters(review, this.asked, (values) => this.change(values));
    this.box = review.$('.rv-rows');
    show(review.$('.rv-session'), SessionBar, { list: this });
    show(review.$('.rv-tally'), Tally, { list: this });
    this.box.onscroll = () => this.more();
    this.box.onclick = () => this.box.blur(); // a click opens the case and gives the keys to it
  }

  params() {
    return { study: this.review.study, run: this.review.run || '', ...this.asked };
  }

  /** Changes order or filters, after all earlier requests, so that a decision is included.
   * @param {Partial<import('./list_filters.js').Asked>} values */
  change(values) {
    Object.assign(this.asked, values);
    this.draw();
    return this.review.enqueue(() => this.load());
  }

  async load() {
    const nonce = (this.nonce = Symbol('load'));
    this.draw();
    const [list, counts] = await this.fetched();
    if (nonce !== this.nonce) return;
    if (!list.ok) return this.review.say(list.error, 'bad');
    this.take(list, counts);
  }

  fetched() {
    return Promise.all([get('/api/review/list', this.params()), get('/api/review/counts', this.params())]);
  }

  /** @param {Answers.Worklist} list @param {Page.Answer<Answers.Counts>} counts */
  take(list, counts) {
    const { sort: _, desc: __, ...filtered } = this.asked;
    this.none = Object.values(filtered).some(Boolean) ? 'No case matches these filters.' : NONE;
    this.rows.clear();
    this.byScore = alike(list.rows);
    this.counts = counts.ok ? counts : null;
    this.add(list);
    this.box.scrollTop = 0;
    this.mark();
    if (this.review.grid.on) this.review.grid.load();
    else this.review.overview.later();
  }

  /** Applies another window's changes without scrolling. @param {Awaited<ReturnType<Worklist['fetched']>>} answers */
  follow(...[list, counts]) {
    if (!list.ok || !counts.ok) return;
    const said = (/** @type {Answers.WorklistRow} */ r) =>
      JSON.stringify([r.id, r.decision, r.score, r.flagged, r.disagreement]);
    const { box, rows } = this;
    const { scrollTop } = box;
    const held = Array.from(rows.values(), ({ row }) => said(row));
    const news = list.rows.filter((row, i) => said(row) !== held[i]);
    const whole = !list.cursor || rows.size <= list.rows.length; // a reader who has scrolled down keeps the rows
    if (whole && (news.length || rows.size > list.rows.length)) this.take(list, counts);
    else {
      for (const row of news) {
        const one = rows.get(row.id);
        if (one) one.row = row;
        this.renew(row.id);
      }
      this.counts = counts;
      this.draw();
    }
    box.scrollTop = scrollTop;
  }

  /** Shows why there is no list. @param {string} why */
  refuse(why) {
    this.none = why;
    this.draw();
  }

  /** Shows empty rows until the next list arrives. */
  clear() {
    this.nonce = Symbol('load');
    this.rows.clear();
    this.counts = null;
    this.none = '';
    this.draw();
  }

  /** @param {Answers.Worklist} list its next page */
  add({ rows, cursor }) {
    for (const row of rows) this.rows.set(row.id, { row, changes: signal(0) });
    this.cursor = cursor;
    this.draw();
  }

  /** Fetches the counts of decisions again: the earlier decision on a case outside the loaded rows is unknown. */
  async recount() {
    const counting = (this.counting = Symbol('counts'));
    const { nonce } = this;
    const counts = await get('/api/review/counts', this.params());
    if (counting !== this.counting) return;
    this.counting = null;
    if (nonce !== this.nonce || !counts.ok) return;
    this.counts = counts;
    this.draw();
  }

  /** Applies a decision to its row and the counts; nothing else moves.
   * @param {number} id @param {Answers.Decision | null} decision @param {Partial<Answers.WorklistRow>} [extra] */
  decided(id, decision, extra = {}) {
    const { counts, rows } = this;
    const held = rows.get(id);
    if (held) {
      const before = held.row.decision;
      Object.assign(held.row, extra, { decision });
      this.renew(id);
      if (counts) {
        counts[before ?? 'unread'] -= 1;
        counts[decision ?? 'unread'] += 1;
        counts.read = counts.total - counts.unread;
      }
    }
    if (!held || this.counting) this.recount(); // a pending answer may be older than this decision
    this.mark();
  }

  /** Redraws a row whose case has changed, and the number of drafts. @param {number} id */
  renew(id) {
    const held = this.rows.get(id);
    if (held) held.changes.value += 1;
    this.changes.value += 1;
  }

  /** Draws the list and what is above it. */
  draw() {
    const { review, counts } = this;
    this.changes.value += 1;
    review.$('.rv-bar').style.setProperty('--done', `${(100 * (counts?.read ?? 0)) / (counts?.total || 1)}%`);
    this.filters();
    show(this.box, Rows, { list: this });
    review.overview.draw();
  }

  /** Marks the case on screen, in sight, and the row that Space goes to. */
  mark() {
    this.draw();
    const now = this.box.querySelector('[aria-current]');
    if (!now) return;
    now.scrollIntoView({ block: 'nearest' });
    this.more();
  }

  async more() {
    const { box } = this;
    if (!this.cursor || this.loading || box.scrollTop + box.clientHeight < box.scrollHeight - 600) return;
    this.loading = true;
    const nonce = this.nonce;
    const list = await get('/api/review/list', { ...this.params(), cursor: JSON.stringify(this.cursor) });
    this.loading = false;
    if (nonce === this.nonce && list.ok) this.add(list);
  }
}

/** Returns the next unread row, else (if `whole`) the first unread one, or null: where Space goes from the case on screen.
 * @template {{row: {id: number, decision?: string | null}}} H
 * @param {Iterable<H>} rows in the list's order
 * @param {number | undefined} id of the case on screen
 * @param {boolean} whole whether every row of the list has been fetched
 * @returns {H | null}
 */
export function nextUnread(rows, id, whole) {
  const all = [...rows];
  const at = all.findIndex(({ row }) => row.id === id);
  const unread = (/** @type {H} */ { row }) => !row.decision && row.id !== id;
  return all.slice(at + 1).find(unread) || (whole && all.slice(0, Math.max(at, 0)).find(unread)) || null;
}

/** @param {{list: Worklist}} props */
function Rows({ list }) {
  const { rows, review, cursor, byScore, none } = list;
  if (!rows.size) return none ? html`<p class="dim rv-none">${none}</p>` : SKELETON;
  const now = review.detail?.id;
  const next = nextUnread(rows.values(), now, !cursor);
  const row = (/** @type {Held} */ held) => html`<${Row} key=${held.row.id} review=${review} held=${held}
    byScore=${byScore} current=${held.row.id === now} next=${held === next} />`;
  return Array.from(rows.values(), row);
}

/** byScore: the score is shown, because most rows have the same percentile, above all held-out normals.
 * @param {{review: ReviewView, held: Held, byScore: boolean, current: boolean, next: boolean}} props */
function Row({ review, held: { row, changes }, byScore, current, next }) {
  changes.value; // if all properties are the same too, the row stays as it is
  const name = nameOf(review, row);
  const column = `${byScore ? 'Score' : 'Percentile'}${row.flagged ? ', flagged' : ''}`;
  return html`
    <div class="rv-row ${row.flagged ? 'flagged' : ''}" role="listitem" tabindex="-1" data-id=${row.id}
      aria-current=${current ? 'true' : null} title=${row.why ? `${name}: ${row.why}` : name} onClick=${() => review.goTo(row.id)}>
      <img src="./api/case/${row.id}/thumb.png?size=80&v=${row.v}" width="40" height="34" loading="lazy" alt="" decoding="async" />
      <span class="rv-what">
        <span class="rv-name">${inMiddle(bare(name), 7)}</span>
        ${tagsIn(review, row)}
        ${row.why && html`<span class="dim">${row.why}</span>`}
      </span>
      <span class="rv-pct num" title=${column}>${byScore ? fixed(row.score, 2) : fixed(row.percentile, 1)}</span>
      ${sign(row.decision, next)}
      ${remarks(review, row)}
    </div>`;
}

/** Above the rows: the counts of decisions, and unsaved drawings, with a button to the next one. @param {{list: Worklist}} props */
function Tally({ list }) {
  list.changes.value;
  const { counts, review } = list;
  if (!counts) return null;
  const ids = [...review.drafts.cases];
  const go = () => review.goTo(ids[(ids.indexOf(review.detail?.id ?? 0) + 1) % ids.length]);
  const look = { class: 'rv-drafts', title: 'Unsaved drawings; click for the next one' };
  return html`<b>${counts.read} of ${counts.total} read</b>
    ${ids.length > 0 && button(`✎ ${ids.length}`, go, look)}
    ${DECISIONS.map(([name]) => [sign(name), counts[name]])}`;
}
