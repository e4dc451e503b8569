// Above the tiles: the number of selected cases and their tags, the cursor's position, the size of the tiles.
import { post } from '../../../static/api.js';
import { action, el, fill, onEnter } from '../../../static/dom.js';
import { plural } from '../../../static/format.js';
import { choice } from './parts.js';

/** @typedef {import('./grid.js').Grid} Grid */

export const LONGEST = 60; // characters of a tag

/** Adds a tag to cases or removes it, and updates the list, the grid and the case on screen.
 * @param {ReviewView} review @param {number[]} cases @param {string} tag @param {boolean} remove */
export async function tagCases(review, cases, tag, remove) {
  const name = tag.trim().replace(/\s+/g, ' ');
  if (!name || !cases.length) return null;
  const answer = await post('/api/review/tag', { study: review.study, cases, tag: name, remove });
  if (!answer.ok) {
    review.say(answer.error, 'bad');
    return null;
  }
  const renew = (/** @type {{id: number, tags?: string[], kinds?: string[]} | null | undefined} */ one) => {
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
  review.grid.retagged(cases);
  review.overview.load();
  review.redraw();
  return answer;
}

/** @param {Grid} grid */
export function selectionBar(grid) {
  const { review } = grid;
  const where = el('span', { class: 'rv-where num dim' });
  const count = el('b', { class: 'num' });
  const known = el('datalist', { id: 'rv-known-tags' });
  const name = el('input', {
    type: 'text',
    placeholder: 'Tag',
    'aria-label': 'Tag for the selected cases',
    title: 'A tag for the selected cases (T)',
    list: 'rv-known-tags',
    maxlength: LONGEST,
  });
  const put = async (/** @type {boolean} */ remove) => {
    const cases = [...grid.selection.ids];
    const done = await tagCases(review, cases, name.value, remove);
    if (!done) return;
    name.value = '';
    const what = remove ? `“${done.tag}” taken off` : `“${done.tag}” put on`;
    review.say(`${what} ${plural(done.changed, 'case')}.`, 'good');
    grid.box.focus({ preventScroll: true });
  };
  onEnter(name, () => put(false));
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ click) =>
    action(text, click, { title });
  const clear = () => {
    grid.selection.clear();
    grid.mark();
  };
  const chosen = el(
    'span',
    { class: 'rv-chosen', role: 'group', 'aria-label': 'Selected cases' },
    count,
    name,
    known,
    button('Tag', 'Add the tag to the selected cases (Enter)', () => put(false)),
    button('Take off', 'Remove the tag from the selected cases', () => put(true)),
    button('Clear', 'Clear the selection (Escape)', clear),
  );
  const hint = el('span', { class: 'rv-hint dim' }, 'Enter opens · Space next unread · Shift+Space selects · T tags');
  const heat = action('Heat map', () => review.act('heat'), {
    class: 'rv-toggle',
    title: 'Heat map on the pictures (H)',
  });
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
  const help = action('?', () => review.act('help'), { title: 'Keys (?)' });
  const gap = el('span', { class: 'rv-gap' });
  const element = el('div', { class: 'rv-top rv-grid-top' }, where, chosen, hint, gap, heat, sizes.row, help);
  return {
    element,
    take: () => name.focus(),
    reflect() {
      const { selection, pages, at } = grid;
      const { total } = pages;
      where.textContent = total ? `${at + 1} of ${total}` : '';
      chosen.hidden = !selection.ids.size;
      hint.hidden = Boolean(selection.ids.size);
      count.textContent = `${selection.ids.size} selected`;
      heat.hidden = Boolean(review.setup?.blinded);
      heat.setAttribute('aria-pressed', String(review.show.heat));
      fill(
        known,
        (review.overview.got?.tags || []).map(({ tag }) => el('option', { value: tag })),
      );
    },
  };
}
