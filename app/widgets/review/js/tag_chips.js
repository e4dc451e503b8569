// Tags as small chips; tags from the import stay hidden, like the imported mask, until the reader has decided.
import { el } from '../../../static/dom.js';

/** @typedef {{id: number, tags?: string[], kinds?: string[]}} Tagged */

/** Returns the tags that may be shown.
 * @param {ReviewView} review @param {Tagged} one @param {boolean} decided by this reader */
export function tagsOf({ show, revealed }, one, decided) {
  const open = decided || show.truth || revealed.has(one.id);
  return (one.tags || []).filter((tag) => open || !one.kinds?.includes(tag));
}

/** Shows the first `most` tags, and the number of others. @param {string[]} tags @param {number} most */
export function chips(tags, most) {
  if (!tags.length) return null;
  const more = tags.length - most;
  return el(
    'span',
    { class: 'rv-tags', title: `Tags: ${tags.join(', ')}` },
    tags.slice(0, most).map((tag) => el('span', { class: 'rv-tag' }, tag)),
    more > 0 && el('span', { class: 'rv-tag' }, `+${more}`),
  );
}
