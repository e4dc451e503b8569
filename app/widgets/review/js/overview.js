// The worklist's overview: the distribution of its scores, the current position, and the filter chips.
import { get, questions } from '../../../static/api.js';
import { clamp, fixed } from '../../../static/format.js';
import { html, show } from '../../../static/view.js';
import { Facets } from './list_filters.js';

const WIDTH = 640;
const HEIGHT = 40;

export class Overview {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    this.got = /** @type {Answers.ListOverview | null} */ (null);
    this.asked = questions();
    this.place = { id: 0, at: -1 }; // of the case in the viewer
  }

  /** Reloads; resolves to the answer, or to null if there is none. */
  async load() {
    const isNewest = this.asked();
    const found = await get('/api/review/overview', this.review.list.params());
    if (!found.ok) return null;
    if (isNewest()) {
      this.got = found;
      this.place = { id: 0, at: -1 };
      this.draw();
    }
    return found;
  }

  clear() {
    this.asked(); // an answer that is under way is not shown
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
    const { review } = this;
    show(review.$('.rv-facets'), Facets, { review });
    show(review.$('.rv-strip'), Strip, { overview: this });
    show(review.$('#rv-known-tags'), Known, { tags: this.got?.tags || [] });
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
    this.draw();
  }

  /** Goes to the case with the score nearest to this one. @param {number} score */
  async goTo(score) {
    const { review } = this;
    const found = await get('/api/review/place', { ...review.list.params(), score });
    if (!found.ok) return review.say(found.error, 'bad');
    if (found.case === null || found.at === null) return;
    if (!review.grid.on) return review.goTo(found.case);
    await review.grid.pages.ensure(found.at, found.at + 1);
    review.grid.reach(found.at, true);
  }
}

/** The tags that are offered where one is typed. @param {{tags: Answers.TagCount[]}} props */
const Known = ({ tags }) => tags.map(({ tag }) => html`<option value=${tag} />`);

/** The position in the list, and the distribution of its scores with the current one. @param {{overview: Overview}} props */
function Strip({ overview }) {
  const { grid, detail, run } = overview.review;
  const { total = 0, scores = null } = overview.got || {};
  if (!total) return null;
  const at = grid.on ? grid.at : overview.index();
  const score = (grid.on ? grid.pages.row(grid.at) : detail?.readings?.[run || ''])?.score ?? null;
  const title = 'Score of this case on the scale of this run';
  return html`
    ${scores && html`<${Bars} scores=${scores} score=${score} go=${(/** @type {number} */ to) => overview.goTo(to)} />`}
    <div class="rv-strip-words num dim">
      <span>${at < 0 ? `${total} cases` : `${at + 1} of ${total}`}</span>
      ${scores && html`<span title=${title}>${score !== null && `score ${fixed(score)}`}</span>`}
    </div>`;
}

/** @param {{scores: NonNullable<Answers.ListOverview['scores']>, score: number | null, go: (score: number) => void}} props */
function Bars({ scores: { lo, hi, bins, threshold }, score, go }) {
  const across = (/** @type {number} */ v) => clamp((v - lo) / (hi - lo), 0, 1) * WIDTH;
  const most = Math.max(...bins, 1);
  const step = WIDTH / bins.length;
  const cut = threshold === null ? null : across(threshold);
  const bar = (/** @type {number} */ n, /** @type {number} */ i) => {
    if (!n) return null;
    // Heights follow the square root, so that a bin of one case is visible next to one of a thousand.
    const h = Math.max(1.5, Math.sqrt(n / most) * (HEIGHT - 4));
    const look = cut !== null && (i + 0.5) * step >= cut ? 'flagged' : '';
    return html`<rect x=${i * step + 0.5} y=${HEIGHT - h} width=${step - 1} height=${h} class=${look} />`;
  };
  const about = `Scores of the cases in this list, ${fixed(lo)} to ${fixed(hi)}; the line is the threshold. Click to go there.`;
  const click = (/** @type {any} */ { clientX, currentTarget }) => {
    const box = currentTarget.getBoundingClientRect();
    go(lo + ((clientX - box.left) / box.width) * (hi - lo));
  };
  return html`
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${about} onClick=${click}>
      <title>${about}</title>
      ${bins.map(bar)}
      ${cut !== null && html`<line x1=${cut} x2=${cut} y1="0" y2=${HEIGHT} class="rv-strip-cut" />`}
      ${
        score !== null &&
        html`<path class="rv-strip-now" aria-hidden="true"
        d="M${across(score) - 9} 0h18l-9 11zM${across(score)} 0v${HEIGHT}" />`
      }
    </svg>`;
}
