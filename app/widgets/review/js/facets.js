// Filters of the grid as chips, one group for each question; a second click on a chip removes it.
import { render } from 'preact';
import { html } from '../../../static/view.js';
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
export function drawFacets({ $, overview, setup, show, list }) {
  const chip =
    (/** @type {keyof Asked} */ key) =>
    (/** @type {Readonly<Chip>} */ [value, text, tip]) => {
      const on = list.asked[key] === value;
      const number = key === 'decision' ? Reflect.get(list.counts || {}, value) : undefined;
      const turn = () => list.change({ [key]: on ? '' : value });
      return html`
      <button type="button" key=${value} class="rv-chip" data-value=${value} title=${tip || text} aria-pressed=${on} onClick=${turn}>
        ${text}<span class="num dim" hidden=${number === undefined}>${number}</span>
      </button>`;
    };
  /** @param {string} title @param {keyof Asked} key @param {readonly Readonly<Chip>[]} chips @param {string} [more] */
  const group = (title, key, chips, more = '') => html`
    <div key=${key} class="rv-facet ${more}" role="group" aria-label=${title} data-key=${key}>
      <span class="rv-facet-name">${title}</span>${chips.map(chip(key))}
    </div>`;
  const covered = Boolean(setup?.blinded || setup?.session);
  const tags = overview.got?.tags || [];
  const known = tags.map(({ tag, cases }) => /** @type {Chip} */ ([tag, tag, `${tag}: ${cases}`]));
  if (list.asked.tag && !tags.some(({ tag }) => tag === list.asked.tag)) known.push([list.asked.tag, list.asked.tag]);
  // An image's label is available with "Reference", like the imported mask.
  const labels = overview.got?.labels && (show.truth || list.asked.label);
  // Those of the class `menu` are also menus of the list.
  const groups = [
    group('Decision', 'decision', covered ? ANSWERS.decision.slice(0, 5) : ANSWERS.decision, 'menu'),
    !setup?.blinded && group('Flag', 'flagged', ANSWERS.flagged, 'menu'),
    !setup?.blinded && group('Lesion mask', 'has_mask', ANSWERS.has_mask, 'menu'),
    group('Assigned', 'assigned', ANSWERS.assigned, 'menu'),
    labels && group('Label', 'label', LABELS),
    known.length > 0 && group('Tag', 'tag', known),
  ];
  render(groups, $('.rv-facets'));
}
