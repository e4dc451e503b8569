// Order and filters of the worklist, as menus.
import { el, options } from '../../../static/dom.js';
import { button, icon, press } from './parts.js';

/** @typedef {{sort: string, desc: number, decision: string, flagged: string, text: string, has_mask: string,
 *   assigned: string, tag: string, label: string}} Asked the query sent to the server */

/** The initial query. @type {Asked} */
export const NOTHING = {
  sort: 'percentile',
  desc: 1,
  decision: '',
  flagged: '',
  text: '',
  has_mask: '',
  assigned: '',
  tag: '',
  label: '',
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
/** @type {[keyof typeof ANSWERS, title: string, any: string][]} */
const MENUS = [
  ['decision', 'Which cases', 'All cases'],
  ['flagged', 'Flag', 'Any flag'],
  ['has_mask', 'Lesion mask', 'Any mask'],
  ['assigned', 'Assigned to me', 'Anyone’s'],
];
const ORDERS = {
  percentile: 'Percentile',
  decision: 'Decision',
  disagreement: 'Disagreement',
  teaches: 'Most informative',
  name: 'Name',
  added: 'Added',
  reviewed: 'Read',
};
const TYPING = 250; // milliseconds without a key after which the name filter is sent
const OPEN_TO_BLIND = ['decision', 'assigned']; // filters that a blind reader may still use

const TILES = 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z';

/** @param {Asked} asked the current query @param {(values: Partial<Asked>) => void} change
 * @param {() => void} turnGrid shows the grid, or the list again */
export function filters(asked, change, turnGrid) {
  /** @param {keyof Asked} key @param {string} title @param {readonly (readonly [string, string, string?])[]} answers */
  const menuOf = (key, title, answers) => {
    const onchange = () => change({ [key]: menu.value });
    const menu = el('select', { 'aria-label': title, title, onchange }, options(answers));
    return { key, menu };
  };
  const menus = [
    menuOf('sort', 'Order of the worklist', Object.entries(ORDERS)),
    ...MENUS.map(([key, title, any]) => menuOf(key, title, [['', any], ...ANSWERS[key]])),
  ];
  const reverse = () => {
    change({ desc: 1 - asked.desc });
    turn.textContent = asked.desc ? '↓' : '↑';
  };
  const turn = button('↓', 'Reverse the order', reverse, { class: 'rv-icon' });
  const text = el('input', { type: 'text', placeholder: 'Find a name', 'aria-label': 'Find a name' });
  let wait = 0;
  text.addEventListener('input', () => {
    clearTimeout(wait);
    wait = setTimeout(() => change({ text: text.value }), TYPING);
  });
  const [sort, ...rest] = menus.map((m) => m.menu);
  const title = 'Worklist as a grid of pictures, and back (Q)';
  const grid = icon(TILES, 'Grid of pictures', title, turnGrid);
  grid.classList.add('rv-grid-switch');
  press(grid, false);
  return {
    element: el('div', { class: 'rv-filters' }, el('div', { class: 'rv-pair' }, sort, turn, grid), rest, text),
    /** Shows the current query, whatever set it. */
    reflect() {
      for (const { key, menu } of menus) menu.value = String(asked[key]);
    },
    /** @param {boolean} on whether the grid is shown */
    gridded: (on) => press(grid, on),
    /** Hides orders and filters by hidden values from a blind reader. @param {boolean} blind */
    blind(blind) {
      for (const { key, menu } of menus) menu.disabled = blind && !OPEN_TO_BLIND.includes(key);
      for (const control of [turn, text]) control.disabled = blind;
    },
  };
}
