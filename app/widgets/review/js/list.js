// The worklist: rows are fetched page by page as the reader scrolls; the server orders and filters.

import { get } from '../../../static/api.js';
import { action, el, fill } from '../../../static/dom.js';
import { fixed } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { filters, NOTHING } from './list_filters.js';
import { endOf, inMiddle, MARK } from './parts.js';
import { rowName } from './reference.js';
import { sessionBar } from './session.js';
import { chips, tagsOf } from './tags.js';

const NONE = 'This study has no test cases yet.';

/** Signs of an unsaved drawing and of readers who differ. @param {ReviewView} review @param {Answers.WorklistRow} row */
export const signs = (review, row) => [
  review.drafts.cases.has(row.id) && el('span', { class: 'rv-draft', title: 'Unsaved drawing' }, '✎'),
  (row.disagreement || 0) > 0 && el('span', { class: 'rv-differ', title: 'Readers differ' }, '≠'),
];

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
    /** @type {Map<number, {row: Answers.WorklistRow, element: HTMLElement}>} */
    this.rows = new Map();
    /** @type {import('./list_filters.js').Asked} */
    this.asked = { ...NOTHING };
    /** @type {Answers.Counts | null} */
    this.counts = null;
    /** @type {unknown[] | null} start of the next page, or null */
    this.cursor = null;
    this.loading = false;
    this.byScore = false; // percentiles do not distinguish the rows
    this.nonce = Symbol('load');
    /** @type {symbol | null} identifies the newest request for the counts, until it is answered */
    this.counting = null;
    const { $ } = review;
    this.filters = filters(review, this.asked, (values) => this.change(values));
    this.box = $('.rv-rows');
    this.bar = $('.rv-bar');
    this.tally = $('.rv-tally');
    this.box.onscroll = () => this.more();
    this.box.onclick = () => this.box.blur(); // a click opens the case and gives the keys to it
    this.session = sessionBar(review);
  }

  params() {
    return { study: this.review.study, run: this.review.run || '', ...this.asked };
  }

  /** Changes order or filters, after all earlier requests, so that a decision is included.
   * @param {Partial<import('./list_filters.js').Asked>} values */
  change(values) {
    Object.assign(this.asked, values);
    this.filters.reflect();
    return this.review.enqueue(() => this.load());
  }

  async load() {
    const nonce = (this.nonce = Symbol('load'));
    this.filters.blind(Boolean(this.review.setup?.blinded || this.review.setup?.session));
    this.session.show();
    const [list, counts] = await this.fetched();
    if (nonce !== this.nonce) return;
    if (!list.ok) return this.review.say(list.error, 'bad');
    this.take(list, counts);
    return list.rows;
  }

  fetched() {
    return Promise.all([get('/api/review/list', this.params()), get('/api/review/counts', this.params())]);
  }

  /** @param {{rows: Answers.WorklistRow[], cursor: unknown[] | null}} list @param {{ok: false} | ({ok: true} & Answers.Counts)} counts */
  take(list, counts) {
    this.rows.clear();
    this.box.replaceChildren();
    this.box.scrollTop = 0;
    this.cursor = list.cursor;
    this.byScore = alike(list.rows);
    this.add(list.rows);
    const { sort: _, desc: __, ...filtered } = this.asked;
    if (!list.rows.length) this.refuse(Object.values(filtered).some(Boolean) ? 'No case matches these filters.' : NONE);
    this.counts = counts.ok ? counts : null;
    this.showCounts();
    this.mark(this.review.detail?.id);
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
    const held = [...rows.values()].map(({ row }) => said(row));
    const news = list.rows.filter((row, i) => said(row) !== held[i]);
    const whole = !list.cursor || rows.size <= list.rows.length; // a reader who has scrolled down keeps the rows
    if (whole && (news.length || rows.size > list.rows.length)) this.take(list, counts);
    else {
      for (const row of news) {
        const { element } = rows.get(row.id) || {};
        if (element) rows.set(row.id, { row, element });
        this.renew(row.id);
      }
      this.counts = counts;
      this.showCounts();
    }
    box.scrollTop = scrollTop;
  }

  /** Shows why there is no list. @param {string} why */
  refuse(why) {
    fill(this.box, el('p', { class: 'dim rv-none' }, why));
  }

  /** Shows empty rows until the next list arrives. */
  clear() {
    this.nonce = Symbol('load');
    this.rows.clear();
    this.counts = null;
    fill(this.tally);
    const empty = Array.from({ length: 8 }, () => dom`<div class="rv-row skeleton"><span /><span /></div>`);
    fill(this.box, empty);
  }

  /** @param {Answers.WorklistRow[]} rows */
  add(rows) {
    for (const row of rows) {
      const element = this.draw(row);
      this.rows.set(row.id, { row, element });
      this.box.append(element);
    }
  }

  /** @param {Answers.WorklistRow} row */
  draw(row) {
    const { review, byScore } = this;
    const what = row.decision || 'unread';
    const name = rowName(review, row);
    const column = `${byScore ? 'Score' : 'Percentile'}${row.flagged ? ', flagged' : ''}`;
    return dom`
      <div class="rv-row ${row.flagged ? 'flagged' : ''}" role="listitem" tabIndex="-1" data-id=${row.id}
        title=${row.why ? `${name}: ${row.why}` : name} onclick=${() => review.goTo(row.id)}>
        <img src=${`/api/case/${row.id}/thumb.png?size=80&v=${row.v}`} width="40" height="34" loading="lazy" alt="" decoding="async" />
        <span class="rv-what">
          <span class="rv-name">${inMiddle(name.replace(/\.[a-z]{2,5}$/i, ''), endOf(name, 7))}</span>
          ${chips(tagsOf(review, row, Boolean(row.decision)), 2)}
          ${row.why && el('span', { class: 'dim' }, row.why)}
        </span>
        <span class="rv-pct num" title=${column}>${this.figure(row)}</span>
        <span class="rv-mark ${what}" title=${what}>${row.decision && MARK[row.decision]}</span>
        ${signs(review, row)}
      </div>`;
  }

  /** Returns the percentile, or the score if most rows have the same percentile, above all held-out normals.
   * @param {Answers.WorklistRow} row */
  figure({ score, percentile }) {
    return this.byScore ? fixed(score, 2) : fixed(percentile, 1);
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
    this.showCounts();
  }

  /** Applies a decision to its row and the counts; nothing else moves.
   * @param {number} id @param {Answers.Decision | null} decision @param {Partial<Answers.WorklistRow>} [extra] */
  decided(id, decision, extra = {}) {
    const held = this.rows.get(id);
    if (held) {
      const before = held.row.decision;
      Object.assign(held.row, extra, { decision });
      this.renew(id);
      if (this.counts && before !== decision) {
        if (before) this.counts[before] -= 1;
        else this.counts.read += 1;
        if (decision) this.counts[decision] += 1;
        else this.counts.read -= 1;
        this.counts.unread = this.counts.total - this.counts.read;
        this.showCounts();
      }
    }
    if (!held || this.counting) this.recount(); // a pending answer may be older than this decision
    this.mark(this.review.detail?.id);
  }

  /** Redraws a row whose case got or lost a draft. @param {number} id */
  renew(id) {
    const held = this.rows.get(id);
    if (held) {
      const element = this.draw(held.row);
      held.element.replaceWith(element);
      held.element = element;
      if (id === this.review.detail?.id) element.setAttribute('aria-current', 'true');
    }
    this.showCounts();
  }

  showCounts() {
    if (!this.counts) return;
    tally(this);
    this.session.show();
  }

  /** @param {number | undefined} id the case on screen */
  mark(id) {
    this.box.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const held = id === undefined ? null : this.rows.get(id);
    this.review.overview.mark();
    markNext(this.box, this.rows.values(), id, !this.cursor);
    if (!held) return;
    held.element.setAttribute('aria-current', 'true');
    held.element.scrollIntoView({ block: 'nearest' });
    this.more();
  }

  async more() {
    const { box } = this;
    if (!this.cursor || this.loading || box.scrollTop + box.clientHeight < box.scrollHeight - 600) return;
    this.loading = true;
    const nonce = this.nonce;
    const list = await get('/api/review/list', { ...this.params(), cursor: JSON.stringify(this.cursor) });
    this.loading = false;
    if (nonce !== this.nonce || !list.ok) return;
    this.cursor = list.cursor;
    this.add(list.rows);
  }
}

// The row that Space goes to from the case on screen.
/** @typedef {{row: {id: number, decision?: string | null}, element: HTMLElement}} Held */

/**
 * Returns the next unread row, else (if `whole`) the first unread one, or null.
 * @template {Pick<Held, 'row'>} H
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

/** @param {HTMLElement} box of the rows @param {Iterable<Held>} rows @param {number | undefined} id @param {boolean} whole */
function markNext(box, rows, id, whole) {
  box.querySelector('.rv-next')?.classList.remove('rv-next');
  const mark = nextUnread(rows, id, whole)?.element.querySelector('.rv-mark');
  mark?.classList.add('rv-next');
  mark?.setAttribute('title', 'unread, the next one (Space)');
}

// Above the worklist: the counts of decisions, and unsaved drawings.

/** @param {Worklist} list */
function tally(list) {
  const c = list.counts;
  if (!c) return;
  const mark = (/** @type {Answers.Decision} */ name) => [
    el('span', { class: `rv-mark ${name}`, title: name }, MARK[name]),
    String(c[name]),
  ];
  const marks = [mark('normal'), mark('abnormal'), mark('unsure')];
  fill(list.tally, el('b', {}, `${c.read} of ${c.total} read`), draftsButton(list.review), marks);
  list.bar.style.setProperty('--done', c.total ? `${(100 * c.read) / c.total}%` : '0%');
}

/** Shows the number of unsaved drawings, and a button to the next one. @param {ReviewView} review */
function draftsButton(review) {
  const ids = [...review.drafts.cases];
  if (!ids.length) return null;
  const next = () => ids[(ids.indexOf(review.detail?.id ?? 0) + 1) % ids.length];
  const title = 'Unsaved drawings; click for the next one';
  const go = () => review.goTo(next());
  return action(`✎ ${ids.length}`, go, { class: 'rv-drafts', title });
}
