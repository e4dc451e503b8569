// Order and filters of the worklist: as menus, and above the grid as chips.
import { render } from 'preact';
import { fill, options } from '../../../static/dom.js';
import { html } from '../../../static/view.js';

/** @typedef {{sort: string, desc: number, decision: string, flagged: string, text: string, has_mask: string,
 *   assigned: string, tag: string, label: string}} Asked the query sent to the server */

/** The initial query. @type {Asked} */
export const NOTHING = {
  ...{ sort: 'percentile', desc: 1 },
  ...{ decision: '', flagged: '', text: '', has_mask: '', assigned: '', tag: '', label: '' },
};

/** @typedef {[value: string, text: string, title?: string]} Answer the server's value, and its words */
/** The filters by properties of a case. @satisfies {Partial<Record<keyof Asked, Answer[]>>} */
export const ANSWERS = /** @type {const} */ ({
  decision: [
    ['unread', 'Unread'],
    ['read', 'Read'],
    ['normal', 'Normal'],
    ['abnormal', 'Abnormal'],
    ['unsure', 'Unsure'],
    ['against', 'Disagrees with AI', 'Called normal though flagged, or abnormal though not'],
    ['differs', 'Disagrees with reader', 'Another reader decided otherwise'],
  ],
  flagged: [
    ['1', 'Flagged'],
    ['0', 'Not flagged'],
  ],
  has_mask: [
    ['1', 'With mask'],
    ['0', 'No mask'],
  ],
  assigned: [['1', 'Mine']],
});
/** @type {[keyof typeof ANSWERS, any: string][]} */
const MENUS = [
  ['decision', 'All cases'],
  ['flagged', 'Any flag'],
  ['has_mask', 'Any mask'],
  ['assigned', 'Anyone’s'],
];
const ORDERS = {
  percentile: 'Percentile',
  decision: 'Decision',
  disagreement: 'Disagreement',
  teaches: 'Most informative',
  name: 'Name',
  added: 'Date added',
  reviewed: 'Date read',
};
const TYPING = 250; // milliseconds without a key after which the name filter is sent
const OPEN_TO_BLIND = ['decision', 'assigned']; // filters that a blind reader may still use

/** @param {ReviewView} review @param {Asked} asked the current query @param {(values: Partial<Asked>) => void} change */
export function filters({ $ }, asked, change) {
  const [sort, turn, text] = ['[data-key=sort]', '.rv-reverse', '.rv-filters > input'].map($);
  const menus = [sort, ...MENUS.map(([key]) => $(`.rv-filters [data-key=${key}]`))];
  fill(sort, options(Object.entries(ORDERS)));
  MENUS.forEach(([key, any], i) => fill(menus[i + 1], options([['', any], ...ANSWERS[key]])));
  for (const menu of menus) menu.onchange = () => change({ [menu.dataset.key]: menu.value });
  turn.onclick = () => {
    change({ desc: 1 - asked.desc });
    turn.textContent = asked.desc ? '↓' : '↑';
  };
  let wait = 0;
  text.oninput = () => {
    clearTimeout(wait);
    wait = setTimeout(() => change({ text: text.value }), TYPING);
  };
  return {
    /** Shows the current query, whatever set it. */
    reflect() {
      for (const menu of menus) menu.value = String(Reflect.get(asked, menu.dataset.key));
    },
    /** Hides orders and filters by hidden values from a blind reader. @param {boolean} blind */
    blind(blind) {
      for (const menu of menus) menu.disabled = blind && !OPEN_TO_BLIND.includes(menu.dataset.key);
      turn.disabled = text.disabled = blind;
    },
  };
}

// The filters as chips, one group for each question; a second click on a chip removes it.
/** @type {Answer[]} */
const LABELS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unknown', 'Unknown'],
];

/** @param {ReviewView} review */
export function drawFacets({ $, overview, setup, show, list }) {
  const chip =
    (/** @type {keyof Asked} */ key) =>
    (/** @type {Readonly<Answer>} */ [value, text, tip]) => {
      const on = list.asked[key] === value;
      const number = key === 'decision' ? Reflect.get(list.counts || {}, value) : undefined;
      const turn = () => list.change({ [key]: on ? '' : value });
      return html`
      <button type="button" key=${value} class="rv-chip" data-value=${value} title=${tip || text} aria-pressed=${on} onClick=${turn}>
        ${text}<span class="num dim" hidden=${number === undefined}>${number}</span>
      </button>`;
    };
  /** @param {string} title @param {keyof Asked} key @param {readonly Readonly<Answer>[]} chips @param {string} [more] */
  const group = (title, key, chips, more = '') => html`
    <div key=${key} class="rv-facet ${more}" role="group" aria-label=${title} data-key=${key}>
      <span class="rv-facet-name">${title}</span>${chips.map(chip(key))}
    </div>`;
  const covered = Boolean(setup?.blinded || setup?.session);
  const tags = overview.got?.tags || [];
  const known = tags.map(({ tag, cases }) => /** @type {Answer} */ ([tag, tag, `${tag}: ${cases}`]));
  if (list.asked.tag && !tags.some(({ tag }) => tag === list.asked.tag)) known.push([list.asked.tag, list.asked.tag]);
  // An image's label is available with "Reference", like the imported mask.
  const labels = overview.got?.labels && (show.truth || list.asked.label);
  // Groups of the class `menu` are also menus above the list.
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
