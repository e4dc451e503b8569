// Cases that came in meanwhile join the worklist by themselves; the case on screen and the list's place stay as they are.
import { get } from '../../../static/api.js';

const PAGE = 100; // rows of the list's first page; a reader who is further down keeps the rows that are there

/** @param {import('./review_view.js').ReviewView} review */
export function followIncoming(review) {
  const { studio, list } = review;
  /** @type {Record<string, string | undefined>} */
  const seen = {}; // study -> when something last came in, as far as this list knows

  studio.on('status', async (/** @type {import('../../../static/answers').Status} */ { arrived, reading }) => {
    const { study } = review;
    if (!study) return;
    // A study that is read blind no more, or a session ended in another window, shows at once.
    const { setup } = review;
    const session = reading.session?.study === study ? reading.session.id : undefined;
    const same = setup && setup.blinded === reading.blind.includes(study) && setup.session?.id === session;
    if (setup && setup.study === study && !same) return review.open(study);
    const last = arrived?.[study];
    if (!(study in seen)) seen[study] = last;
    if (seen[study] === last || !studio.shown(list.element)) return;
    seen[study] = last;
    if (list.rows.size > PAGE) {
      const counts = await get('/api/review/counts', list.params());
      if (review.study !== study || !counts.ok) return;
      list.counts = counts;
      list.showCounts();
      return;
    }
    const { scrollTop } = list.box;
    const rows = await list.load();
    list.box.scrollTop = scrollTop;
    if (!review.detail && rows?.length) review.goTo(rows[0].id);
  });
}
