// Above the worklist: how many cases are read, and as what; drawings that wait to be saved.
import { el, fill } from '../../../static/dom.js';

/** @typedef {import('./list.js').Worklist} Worklist */

/** @param {Worklist} list */
export function tally(list) {
  const c = list.counts;
  if (!c) return;
  fill(
    list.tally,
    el('b', {}, `${c.read} of ${c.total} read`),
    draftsButton(list.review),
    el('span', { class: 'rv-mark normal', title: 'normal' }, 'N'),
    String(c.normal),
    el('span', { class: 'rv-mark abnormal', title: 'abnormal' }, 'A'),
    String(c.abnormal),
    el('span', { class: 'rv-mark unsure', title: 'unsure' }, 'U'),
    String(c.unsure),
  );
  list.bar.style.setProperty('--done', c.total ? `${(100 * c.read) / c.total}%` : '0%');
}

/** How many drawings are not saved yet, and the way to the next of them. @param {import('./review_view.js').ReviewView} review */
function draftsButton(review) {
  const ids = [...review.drafts.cases];
  if (!ids.length) return null;
  const next = () => ids[(ids.indexOf(review.detail?.id ?? 0) + 1) % ids.length];
  const title = 'Drawings that are not saved yet; click for the next one';
  const go = () => review.goTo(next());
  return el('button', { type: 'button', class: 'rv-drafts', title, onclick: go }, `✎ ${ids.length}`);
}
