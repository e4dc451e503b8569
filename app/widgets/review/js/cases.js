// Moving between cases: everything is fetched before anything changes, so that nothing jumps; the next cases are
// fetched in advance.
import { get } from '../../../static/api.js';
import { shownCase } from '../../../static/store.js';
import { prepare } from './drawing.js';
import * as layers from './layers.js';
import { masksShown, masksWait } from './reference.js';
import { UPRIGHT } from './view.js';

export class CaseLoader {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    this.newest = /** @type {symbol | null} */ (null); // identifies the newest call of `enter`; older ones stop
  }

  /** Shows a case. @param {Answers.CaseDetail} detail @param {Answers.Ahead[]} [ahead]
   * @param {() => boolean} [still] whether it is still wanted once everything is loaded */
  async enter(detail, ahead = [], still = () => true) {
    const { review } = this;
    if (detail.study !== review.study) return; // an answer requested before another study was opened
    const nonce = (this.newest = Symbol('case'));
    const picture = await layers.pictures.get(`${detail.id}/${detail.v}`, detail).catch((error) => {
      review.say(error.message, 'bad');
      return null;
    });
    const mask = masksShown(review, detail)[0] || null;
    const run = review.run && detail.readings?.[review.run]?.has_map ? review.run : null;
    const [roi, heat, lesion, second, draft] = await Promise.all([
      run && picture ? layers.rois.get(`${detail.id}/${detail.v}`, detail.id, detail.v) : null,
      run ? layers.heats.get(`${detail.id}/${run}`, detail.id, run) : null,
      mask ? layers.masks.get(`${detail.id}/${mask.id}`, detail.id, mask.id) : null,
      review.show.layout === 'compare' ? this.secondHeat(detail) : null,
      review.detail?.id === detail.id ? null : review.drafts.fetch(detail),
    ]);
    if (nonce !== this.newest || !still()) return;
    if (review.detail?.id !== detail.id) {
      review.editor.close();
      review.editor.tool = null;
      review.put({ nearest: null });
      review.ruler.clear();
      review.place.clear();
      review.view.turn = UPRIGHT;
      review.display.nextCase();
    }
    const waits = masksWait(review, detail);
    const shown = { detail, picture, roi, lesion, maskId: mask?.id || null, waits };
    review.put({ ...shown, other: null, otherId: null, coming: false });
    shownCase.value = review.grid.on ? null : detail.id;
    review.display.dress({ heat, second });
    if (draft && !review.editor.mask) review.editor.reopen(draft);
    if (picture) review.view.setImage(picture.w, picture.h);
    review.put({ since: performance.now() });
    review.display.newRange();
    review.threshold.settle();
    review.list.mark();
    review.redraw();
    await new Promise((done) => requestAnimationFrame(done));
    review.put({ shownAt: performance.now() });
    this.prefetch(ahead);
    prepare([detail.id, ...ahead.map((next) => next.id)]);
    this.fetchNearest();
  }

  /** Fetches a case and shows it. @param {number} id */
  async fetch(id) {
    const found = await get(`/api/review/case/${id}`, this.review.list.params());
    if (!found.ok) return this.review.say(found.error, 'bad');
    await this.enter(found.case);
  }

  /** Fetches and prepares the next cases in order, while the reader looks at this one. The server omits what a blind
   * reader may not see yet.
   * @param {Answers.Ahead[]} ahead */
  prefetch(ahead) {
    const { review } = this;
    const { run, show } = review;
    for (const next of ahead) {
      layers.ahead(next.id, next.v, run)?.then(
        ({ picture, heat, roi, lesion, mask }) => {
          if (!heat) return;
          const ready = () => {
            if (review.run !== run) return;
            const made = layers.layer(heat, picture, show.colours, show.inside ? roi : null);
            layers.cutAt(made, review.threshold.step);
            review.threshold.counted(made, lesion, mask, picture);
          };
          if ('requestIdleCallback' in window) requestIdleCallback(ready, { timeout: 1000 });
          else setTimeout(ready);
        },
        () => null,
      );
    }
  }

  /** Fetches the heat map of another detector, if one has scored the case. @param {Answers.CaseDetail} detail */
  async secondHeat(detail) {
    const { setup, run } = this.review;
    const others = setup?.runs.filter((r) => r.id !== run && detail.readings?.[r.id]?.has_map) || [];
    const other = others.find((r) => r.id === this.review.beside) || others.find((r) => r.first);
    return other ? layers.heats.get(`${detail.id}/${other.id}`, detail.id, other.id) : null;
  }

  // The normal training image nearest to the case in the run's feature space.
  async fetchNearest() {
    const { review } = this;
    const { detail, run } = review;
    if (!review.show.nearest || !detail || detail.blind || !run || review.nearest?.of === `${detail.id}/${run}`) return;
    review.put({ nearest: null });
    const stale = () => review.detail?.id !== detail.id || review.run !== run;
    const found = await get(`/api/case/${detail.id}/nearest`, { run });
    if (stale()) return;
    if (!found.ok) return review.say(found.error);
    const [first] = found.cases;
    if (!first) return review.say('The study has no normal training images.');
    const picture = await layers.pictures.get(`${first.id}/${first.v}`, first).catch(() => null);
    if (stale() || !picture) return;
    review.put({ nearest: { ...first, of: `${detail.id}/${run}`, picture } });
    review.redraw();
  }
}
