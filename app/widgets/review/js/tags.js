// Tags of cases as chips, the panel of the case on screen, and a field for a new one. Tags from the import stay hidden,
// like the imported mask, until the reader has decided.
import { api } from '../../../static/api.js';
import { orToast } from '../../../static/dialogs.js';
import { fill, onEnter } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';

/** @typedef {{id: number, tags?: string[], kinds?: string[]}} Tagged */

/** Returns the tags that may be shown.
 * @param {ReviewView} review @param {Tagged} one @param {boolean} decided by this reader */
export function tagsOf({ show, revealed }, one, decided) {
  const open = decided || show.truth || revealed.has(one.id);
  return (one.tags || []).filter((tag) => open || !one.kinds?.includes(tag));
}

/** Adds a tag to cases or removes it, and updates the list, the grid and the case on screen.
 * @param {ReviewView} review @param {number[]} cases @param {string} tag @param {boolean} remove */
export async function tagCases(review, cases, tag, remove) {
  const name = tag.trim().replace(/\s+/g, ' ');
  if (!name || !cases.length) return null;
  const answer = await orToast(api('/api/review/tag', { study: review.study, cases, tag: name, remove }));
  if (!answer) return null;
  const renew = (/** @type {Tagged | null | undefined} */ one) => {
    if (!one?.tags || !cases.includes(one.id)) return;
    one.tags = [...one.tags.filter((t) => t !== answer.tag), ...(remove ? [] : [answer.tag])].sort();
    one.kinds = one.kinds?.filter((t) => t !== answer.tag);
  };
  renew(review.detail);
  for (const id of cases) {
    renew(review.list.rows.get(id)?.row);
    renew(review.grid.pages.find(id));
    if (review.list.rows.has(id)) review.list.renew(id);
  }
  if (review.grid.on) review.grid.draw();
  review.overview.load();
  review.redraw();
  return answer;
}

/** @param {ReviewView} review */
export function tagPanel(review) {
  const [element, list, name] = ['.rv-tagged', '.rv-case-tags', '.rv-tagged input'].map(review.$);
  const change = (/** @type {string} */ tag, remove = false) =>
    review.detail && tagCases(review, [review.detail.id], tag, remove);
  onEnter(name, async () => {
    if (await change(name.value)) name.value = '';
  });
  const chip = (/** @type {string} */ tag) => dom`
    <button type="button" class="rv-chip" title="Remove this tag" aria-label="Remove tag ${tag}" onclick=${() => change(tag, true)}>
      ${tag}<span aria-hidden="true">×</span>
    </button>`;
  let of = 0;
  review.shows(() => {
    const { detail } = review;
    element.hidden = !detail || Boolean(detail.blind || review.setup?.trial);
    if (detail?.id !== of) name.value = '';
    of = detail?.id || 0;
    const decided = Boolean(detail?.mine.some((r) => r.active));
    const tags = detail ? tagsOf(review, detail, decided) : [];
    list.hidden = !tags.length;
    fill(list, tags.map(chip));
  });
}
