// Order and filters of the worklist, as menus.
import { fill, options } from '../../../static/dom.js';
import { press } from './parts.js';

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
    /** @param {boolean} on whether the grid is shown */
    gridded: (on) => press($('.rv-grid-switch'), on),
    /** Hides orders and filters by hidden values from a blind reader. @param {boolean} blind */
    blind(blind) {
      for (const menu of menus) menu.disabled = blind && !OPEN_TO_BLIND.includes(menu.dataset.key);
      turn.disabled = text.disabled = blind;
    },
  };
}
