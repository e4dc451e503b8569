// Filters of the grid as chips, one group for each question; a second click on a chip removes it.
import { action, el, fill } from '../../../static/dom.js';
import { ANSWERS } from './list_filters.js';

/** @typedef {import('./list_filters.js').Asked} Asked */
/** @typedef {import('./list_filters.js').Answer} Chip */

/** @type {Chip[]} */
const LABELS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unknown', 'Unknown'],
];

/** @param {ReviewView} review */
export function facets(review) {
  const element = review.$('.rv-facets');
  /** @type {Map<string, HTMLElement>} chips and groups stay the same elements, so that no click on one is lost */
  const kept = new Map();

  /** @param {string} name @param {() => HTMLElement} make */
  function once(name, make) {
    const found = kept.get(name) || make();
    kept.set(name, found);
    return found;
  }

  /** @param {keyof Asked} key @param {Readonly<Chip>} chip */
  function button(key, [value, text, tip]) {
    const { list } = review;
    const made = once(`${key}:${value}`, () => {
      const onclick = () => list.change({ [key]: list.asked[key] === value ? '' : value });
      const number = el('span', { class: 'num dim' });
      return action([text, number], onclick, { class: 'rv-chip', 'data-value': value });
    });
    const number = key === 'decision' ? Reflect.get(list.counts || {}, value) : undefined;
    made.title = tip || text;
    made.setAttribute('aria-pressed', String(list.asked[key] === value));
    const count = /** @type {HTMLElement} */ (made.lastElementChild);
    fill(count, number === undefined ? '' : String(number));
    count.hidden = number === undefined;
    return made;
  }

  /** @param {string} title @param {keyof Asked} key @param {readonly Readonly<Chip>[]} chips @param {boolean} [menu] also a menu of the list */
  function group(title, key, chips, menu = false) {
    const look = { class: `rv-facet${menu ? ' menu' : ''}`, role: 'group', 'aria-label': title, 'data-key': key };
    const made = once(key, () => el('div', look, el('span', { class: 'rv-facet-name' }, title)));
    const name = /** @type {Element} */ (made.firstElementChild);
    const shown = chips.map((chip) => button(key, chip));
    return fill(made, name, shown);
  }

  return {
    draw() {
      const { overview, setup, show, list } = review;
      const covered = Boolean(setup?.blinded || setup?.session);
      const tags = overview.got?.tags || [];
      const known = tags.map(({ tag, cases }) => /** @type {Chip} */ ([tag, tag, `${tag}: ${cases}`]));
      if (list.asked.tag && !tags.some(({ tag }) => tag === list.asked.tag))
        known.push([list.asked.tag, list.asked.tag]);
      // An image's label is available with "Reference", like the imported mask.
      const labels = overview.got?.labels && (show.truth || list.asked.label);
      fill(
        element,
        group('Decision', 'decision', covered ? ANSWERS.decision.slice(0, 5) : ANSWERS.decision, true),
        !setup?.blinded && group('Flag', 'flagged', ANSWERS.flagged, true),
        !setup?.blinded && group('Lesion mask', 'has_mask', ANSWERS.has_mask, true),
        group('Assigned', 'assigned', ANSWERS.assigned, true),
        labels && group('Label', 'label', LABELS),
        known.length > 0 && group('Tag', 'tag', known),
      );
    },
  };
}
