// The worklist's overview: the distribution of its scores, the current position, and the filter chips.
import { get } from '../../../static/api.js';
import { el, fill } from '../../../static/dom.js';
import { clamp, fixed } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { reach } from './grid_moves.js';
import { drawFacets } from './list_filters.js';

const WIDTH = 640;
const HEIGHT = 40;

export class Overview {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {Answers.ListOverview | null} */
    this.got = null;
    this.nonce = Symbol('overview');
    /** @type {Promise<Answers.ListOverview | null> | null} */
    this.latest = null;
    this.place = { id: 0, at: -1 }; // of the case in the viewer
    this.element = review.$('.rv-strip');
    this.drawing = review.$('.rv-strip-bars');
    this.words = review.$('.rv-strip-words');
  }

  /** Reloads; resolves to the answer, or to a later one if it was reloaded again meanwhile; null if there is none. */
  load() {
    this.latest = this.fetched();
    return this.latest;
  }

  /** @returns {Promise<Answers.ListOverview | null>} */
  async fetched() {
    const nonce = (this.nonce = Symbol('overview'));
    const found = await get('/api/review/overview', this.review.list.params());
    if (nonce !== this.nonce) return this.latest;
    if (!found.ok) return null;
    this.got = found;
    this.place = { id: 0, at: -1 };
    this.draw();
    return found;
  }

  clear() {
    this.nonce = Symbol('overview');
    this.latest = null;
    this.got = null;
    this.draw();
  }

  /** As `load`, but after the current requests: the first image has priority. */
  later() {
    const ask = () => this.load();
    if ('requestIdleCallback' in window) requestIdleCallback(ask, { timeout: 1500 });
    else setTimeout(ask, 200);
  }

  draw() {
    drawFacets(this.review);
    const scores = this.got?.scores;
    this.element.hidden = !this.got?.total;
    this.drawing.hidden = !scores;
    if (!scores) {
      fill(this.drawing);
      return this.mark();
    }
    const most = Math.max(...scores.bins, 1);
    const step = WIDTH / scores.bins.length;
    const cut = scores.threshold === null ? null : across(scores, scores.threshold) * WIDTH;
    const bars = scores.bins.map((n, i) => {
      // Heights follow the square root, so that a bin of one case is visible next to one of a thousand.
      const h = n ? Math.max(1.5, Math.sqrt(n / most) * (HEIGHT - 4)) : 0;
      const flagged = cut !== null && (i + 0.5) * step >= cut;
      const place = { x: i * step + 0.5, y: HEIGHT - h, width: step - 1, height: h };
      return h > 0 && el('rect', { ...place, class: flagged ? 'flagged' : '' });
    });
    const line = cut !== null && el('line', { x1: cut, x2: cut, y1: 0, y2: HEIGHT, class: 'rv-strip-cut' });
    this.now = el('path', { class: 'rv-strip-now', d: '', 'aria-hidden': 'true' });
    const about = `Scores of the cases in this list, ${fixed(scores.lo)} to ${fixed(scores.hi)}; the line is the threshold. Click to go there.`;
    const go = (/** @type {MouseEvent} */ event) => this.clicked(event);
    const svg = dom`
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${about} onclick=${go}>
        <title>${about}</title>${bars}${line}${this.now}
      </svg>`;
    fill(this.drawing, svg);
    this.mark();
  }

  /** Returns the score of the current case: under the grid's cursor, else in the viewer. */
  current() {
    const { grid, detail, run } = this.review;
    if (grid.on) return grid.pages.row(grid.at)?.score ?? null;
    return (run ? detail?.readings?.[run]?.score : null) ?? null;
  }

  /** Marks the current position. */
  mark() {
    const scores = this.got?.scores;
    const score = this.current();
    if (scores && this.now) {
      const x = score === null ? -20 : across(scores, score) * WIDTH;
      this.now.setAttribute('d', `M${x - 9} 0h18l-9 11zM${x} 0v${HEIGHT}`);
    }
    const { grid } = this.review;
    const total = this.got?.total || 0;
    const at = grid.on ? grid.at : this.index();
    const where = total && at >= 0 ? `${at + 1} of ${total}` : `${total} cases`;
    const title = 'Score of this case on the scale of this run';
    const words = scores && el('span', { title }, score === null ? '' : `score ${fixed(score)}`);
    fill(this.words, el('span', {}, where), words);
  }

  /** Returns the list position of the viewer's case; -1 while unknown. */
  index() {
    const { detail, list } = this.review;
    if (!detail) return -1;
    if (this.place.id === detail.id) return this.place.at;
    this.place = { id: detail.id, at: [...list.rows.keys()].indexOf(detail.id) };
    if (this.place.at < 0) this.ask(detail.id);
    return this.place.at;
  }

  /** @param {number} id of a case that is not among the rows fetched so far */
  async ask(id) {
    const found = await get('/api/review/place', { ...this.review.list.params(), case: id });
    if (!found.ok || found.at === null || this.place.id !== id) return;
    this.place.at = found.at;
    this.mark();
  }

  /** Goes to the case with the score nearest to the clicked position. @param {MouseEvent} event */
  async clicked(event) {
    const scores = this.got?.scores;
    const box = this.drawing.getBoundingClientRect();
    if (!scores || !box.width) return;
    const score = scores.lo + ((event.clientX - box.left) / box.width) * (scores.hi - scores.lo);
    const { review } = this;
    const found = await get('/api/review/place', { ...review.list.params(), score });
    if (!found.ok) return review.say(found.error, 'bad');
    if (found.case === null || found.at === null) return;
    if (!review.grid.on) return review.goTo(found.case);
    await review.grid.pages.ensure(found.at, found.at + 1);
    reach(review.grid, found.at, true);
  }
}

/** Returns a score's position on the strip, from 0 at its low end to 1 at its high end.
 * @param {{lo: number, hi: number}} scores @param {number} score */
const across = ({ lo, hi }, score) => clamp((score - lo) / (hi - lo), 0, 1);
