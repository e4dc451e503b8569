// Above the tiles: the number of selected cases and their tags, the cursor's position, the size of the tiles.
import { el, fill } from '../../../static/dom.js';
import { plural } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { button, choice, press } from './parts.js';
import { tagCases, tagField } from './tags.js';

/** @param {import('./grid.js').Grid} grid */
export function selectionBar(grid) {
  const { review } = grid;
  const where = el('span', { class: 'rv-where num dim' });
  const count = el('b', { class: 'num' });
  const known = el('datalist', { id: 'rv-known-tags' });
  const put = async (/** @type {boolean} */ remove) => {
    const cases = [...grid.selection.ids];
    const done = await tagCases(review, cases, name.value, remove);
    if (!done) return;
    name.value = '';
    const what = remove ? `“${done.tag}” taken off` : `“${done.tag}” put on`;
    review.say(`${what} ${plural(done.changed, 'case')}.`, 'good');
    grid.box.focus({ preventScroll: true });
  };
  const name = tagField('Tag', 'for the selected cases', () => put(false));
  const clear = () => {
    grid.selection.clear();
    grid.mark();
  };
  const chosen = dom`<span class="rv-chosen" role="group" aria-label="Selected cases">
    ${count}${name}${known}
    ${button('Tag', 'Add the tag to the selected cases (Enter)', () => put(false))}
    ${button('Take off', 'Remove the tag from the selected cases', () => put(true))}
    ${button('Clear', 'Clear the selection (Escape)', clear)}
  </span>`;
  const hint = el('span', { class: 'rv-hint dim' }, 'Enter opens · Space next unread · Shift+Space selects · T tags');
  const heat = button('Heat map', 'Heat map on the pictures (H)', () => review.act('heat'), { class: 'rv-toggle' });
  const sizes = choice(
    'Size of the pictures',
    [
      ['small', 'S', 'Small pictures'],
      ['medium', 'M', 'Medium pictures'],
      ['large', 'L', 'Large pictures'],
    ],
    (key) => {
      sizes.set(key);
      grid.resize(/** @type {'small' | 'medium' | 'large'} */ (key));
    },
    'medium',
  );
  return {
    element: dom`<div class="rv-top rv-grid-top">
      ${where}${chosen}${hint}<span class="rv-gap" />
      ${heat}${sizes.row}${button('?', 'Keys (?)', () => review.act('help'))}
    </div>`,
    take: () => name.focus(),
    reflect() {
      const { selection, pages, at } = grid;
      where.textContent = pages.total ? `${at + 1} of ${pages.total}` : '';
      chosen.hidden = !selection.ids.size;
      hint.hidden = Boolean(selection.ids.size);
      count.textContent = `${selection.ids.size} selected`;
      heat.hidden = Boolean(review.setup?.blinded);
      press(heat, review.show.heat);
      const option = (/** @type {{tag: string}} */ { tag }) => el('option', { value: tag });
      fill(known, (review.overview.got?.tags || []).map(option));
    },
  };
}
