// The tags of the case on screen: chips that a click removes, and a field for a new one.
import { action, el, fill, onEnter } from '../../../static/dom.js';
import { LONGEST, tagCases } from './selection_bar.js';
import { tagsOf } from './tag_chips.js';

/** @param {ReviewView} review */
export function tagPanel(review) {
  const list = el('div', { class: 'rv-case-tags' });
  const name = el('input', {
    type: 'text',
    placeholder: 'Add a tag',
    'aria-label': 'Add a tag to this case',
    title: 'Add a tag to this case (T)',
    list: 'rv-known-tags',
    maxlength: LONGEST,
  });
  onEnter(name, async () => {
    const { detail } = review;
    if (detail && (await tagCases(review, [detail.id], name.value, false))) name.value = '';
  });
  const element = el('section', { class: 'rv-tagged' }, el('h3', {}, 'Tags'), list, name);
  let of = 0;
  return {
    element,
    take: () => name.focus(),
    reflect() {
      const { detail } = review;
      element.hidden = !detail || Boolean(detail.blind || review.setup?.trial);
      if (detail?.id !== of) name.value = '';
      of = detail?.id || 0;
      const decided = Boolean(detail?.mine.some((r) => r.active));
      const tags = detail ? tagsOf(review, detail, decided) : [];
      list.hidden = !tags.length;
      const off = (/** @type {string} */ tag) => () => detail && tagCases(review, [detail.id], tag, true);
      fill(
        list,
        tags.map((tag) =>
          action([tag, el('span', { 'aria-hidden': 'true' }, '×')], off(tag), {
            class: 'rv-chip',
            title: 'Take it off',
            'aria-label': `Take off ${tag}`,
          }),
        ),
      );
    },
  };
}
