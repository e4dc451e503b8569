// Above the tiles: the number of selected cases and their tags, the cursor's position, the size of the tiles.
import { el, fill, finder, onEnter } from '../../../static/dom.js';
import { plural } from '../../../static/format.js';
import { choice, press } from './parts.js';
import { tagCases } from './tags.js';

/** @param {import('./grid.js').Grid} grid */
export function selectionBar(grid) {
  const { review } = grid;
  const $ = finder(review.$('.rv-grid-top'));
  const name = $('input');
  const put = async (/** @type {boolean} */ remove) => {
    const cases = [...grid.selection.ids];
    const done = await tagCases(review, cases, name.value, remove);
    if (!done) return;
    name.value = '';
    const what = remove ? `“${done.tag}” removed from` : `“${done.tag}” added to`;
    review.say(`${what} ${plural(done.changed, 'case')}.`, 'good');
    grid.box.focus({ preventScroll: true });
  };
  onEnter(name, () => put(false));
  $('.rv-tag-on').onclick = () => put(false);
  $('.rv-tag-off').onclick = () => put(true);
  $('.rv-tag-none').onclick = () => {
    grid.selection.clear();
    grid.mark();
  };
  const sizes = choice($('.rv-sizes'), (key) => {
    sizes(key);
    grid.resize(/** @type {'small' | 'medium' | 'large'} */ (key));
  });
  sizes('medium');
  return {
    take: () => name.focus(),
    reflect() {
      const { selection, pages, at } = grid;
      const chosen = selection.ids.size;
      $('.rv-where').textContent = pages.total ? `${at + 1} of ${pages.total}` : '';
      $('.rv-chosen').hidden = !chosen;
      $('.rv-hint').hidden = Boolean(chosen);
      $('b').textContent = `${chosen} selected`;
      $('.rv-grid-heat').hidden = Boolean(review.setup?.blinded);
      press($('.rv-grid-heat'), review.show.heat);
      const option = (/** @type {{tag: string}} */ { tag }) => el('option', { value: tag });
      fill($('datalist'), (review.overview.got?.tags || []).map(option));
    },
  };
}
