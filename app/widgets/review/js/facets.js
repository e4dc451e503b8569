// Filters of the grid as chips, one group for each question; a second click on a chip takes it away.
import { el, fill } from '../../../static/dom.js';

/** @typedef {import('./list_filters.js').Asked} Asked */
/** @typedef {[value: string, text: string, title?: string]} Chip */

/** @type {Chip[]} */
const DECISIONS = [
  ['unread', 'Unread'],
  ['read', 'Read'],
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
  ['against', 'Against', 'Decisions against the reading'],
];
/** @type {Chip[]} */
const FLAGS = [
  ['1', 'Flagged'],
  ['0', 'Not flagged'],
];
/** @type {Chip[]} */
const MASKS = [
  ['1', 'With mask'],
  ['0', 'No mask'],
];
/** @type {Chip[]} */
const LABELS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unknown', 'Unknown'],
];

/** @param {import('./review_view.js').ReviewView} review */
export function facets(review) {
  const element = el('div', { class: 'rv-facets' });

  /** @param {string} title @param {keyof Asked} key @param {Chip[]} chips @param {boolean} [menu] also a menu of the list */
  function group(title, key, chips, menu = false) {
    const { asked, counts } = review.list;
    const shown = chips.map(([value, text, tip]) => {
      const on = asked[key] === value;
      const number = key === 'decision' ? Reflect.get(counts || {}, value) : undefined;
      return el(
        'button',
        {
          type: 'button',
          class: 'rv-chip',
          'data-value': value,
          title: tip || text,
          'aria-pressed': String(on),
          onclick: () => review.list.change({ [key]: on ? '' : value }),
        },
        text,
        number !== undefined && el('span', { class: 'num dim' }, String(number)),
      );
    });
    const name = el('span', { class: 'rv-facet-name' }, title);
    const look = { class: `rv-facet${menu ? ' menu' : ''}`, role: 'group', 'aria-label': title, 'data-key': key };
    return el('div', look, name, shown);
  }

  return {
    element,
    draw() {
      const { overview, setup, show, list } = review;
      const covered = Boolean(setup?.blinded || setup?.session);
      const tags = overview.got?.tags || [];
      const known = tags.map(({ tag, cases }) => /** @type {Chip} */ ([tag, tag, `${tag}: ${cases}`]));
      if (list.asked.tag && !tags.some(({ tag }) => tag === list.asked.tag))
        known.push([list.asked.tag, list.asked.tag]);
      // What an image shows is asked for with "Reference", here as for the imported mask.
      const labels = overview.got?.labels && (show.truth || list.asked.label);
      fill(
        element,
        group('Decision', 'decision', covered ? DECISIONS.slice(0, 5) : DECISIONS, true),
        !setup?.blinded && group('Flag', 'flagged', FLAGS, true),
        !setup?.blinded && group('Lesion mask', 'has_mask', MASKS, true),
        group('Assigned', 'assigned', [['1', 'Mine']], true),
        labels && group('Label', 'label', LABELS),
        known.length > 0 && group('Tag', 'tag', known),
      );
    },
  };
}
