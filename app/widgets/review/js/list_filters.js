// Order and filters of the worklist: as menus, and above the grid as chips.
import { finderOfAll } from '../../../static/dom.js';
import { html } from '../../../static/view.js';

/** @typedef {typeof NOTHING} Asked the query sent to the server */

/** The initial query. */
export const NOTHING = {
  ...{ sort: 'percentile', desc: 1 },
  ...{ decision: '', flagged: '', text: '', has_mask: '', assigned: '', tag: '', label: '' },
};

const TYPING = 250; // milliseconds without a key after which the name filter is sent
const OPEN_TO_BLIND = ['decision', 'assigned']; // filters that a blind reader may still use
const TELLING = ['against', 'differs']; // answers that a blind reader has no chip for

/** Says whether orders and filters by hidden values are withheld: from a blind reader. @param {ReviewView} review */
const covered = ({ setup }) => Boolean(setup?.blinded || setup?.session);

/** Returns a function that shows the current query, whatever set it.
 * @param {ReviewView} review @param {Asked} asked the current query @param {(values: Partial<Asked>) => void} change */
export function filters(review, asked, change) {
  const { $ } = review;
  const [turn, text] = ['.rv-reverse', '.rv-filters > input'].map($);
  const menus = finderOfAll($('.rv-filters'))('select');
  for (const menu of menus) menu.onchange = () => change({ [menu.dataset.key]: menu.value });
  turn.onclick = () => change({ desc: 1 - asked.desc });
  let wait = 0;
  text.oninput = () => {
    clearTimeout(wait);
    wait = setTimeout(() => change({ text: text.value }), TYPING);
  };
  return () => {
    for (const menu of menus) {
      menu.value = String(Reflect.get(asked, menu.dataset.key));
      menu.disabled = covered(review) && !OPEN_TO_BLIND.includes(menu.dataset.key);
    }
    turn.disabled = text.disabled = covered(review);
    turn.textContent = asked.desc ? '↓' : '↑';
  };
}

// The filters as chips, one group for each question; a second click on a chip removes it.
/** @typedef {[value: string, text: string, title?: string]} Answer the server's value, and its words */
/** @type {Answer[]} */
const LABELS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unknown', 'Unknown'],
];

/** The chips. @param {{review: ReviewView}} props */
export function Facets({ review }) {
  const { $, overview, setup, show, list } = review;
  const chip = (/** @type {keyof Asked} */ key, /** @type {Answer} */ [value, text, tip]) => {
    const on = list.asked[key] === value;
    const number = key === 'decision' ? Reflect.get(list.counts || {}, value) : undefined;
    const turn = () => list.change({ [key]: on ? '' : value });
    return html`
      <button type="button" key=${value} class="rv-chip" data-value=${value} title=${tip || text} aria-pressed=${on} onClick=${turn}>
        ${text}<span class="num dim" hidden=${number === undefined}>${number}</span>
      </button>`;
  };
  /** @param {string} title @param {keyof Asked} key @param {Answer[]} chips @param {string} [more] */
  const group = (title, key, chips, more = '') => html`
    <div key=${key} class="rv-facet ${more}" role="group" aria-label=${title} data-key=${key}>
      <span class="rv-facet-name">${title}</span>${chips.map((one) => chip(key, one))}
    </div>`;
  /** The answers of a menu above the list. @param {string} title @param {keyof Asked} key */
  const menu = (title, key) => {
    const [, ...answers] = /** @type {HTMLSelectElement} */ ($(`.rv-filters [data-key=${key}]`)).options;
    const open = answers.filter(({ value }) => !covered(review) || !TELLING.includes(value));
    const chips = open.map(({ value, text, title: tip }) => /** @type {Answer} */ ([value, text, tip]));
    return group(title, key, chips, 'menu');
  };
  const tags = overview.got?.tags || [];
  const known = tags.map(({ tag, cases }) => /** @type {Answer} */ ([tag, tag, `${tag}: ${cases}`]));
  if (list.asked.tag && !tags.some(({ tag }) => tag === list.asked.tag)) known.push([list.asked.tag, list.asked.tag]);
  // An image's label is available with "Reference", like the imported mask.
  const labels = overview.got?.labels && (show.truth || list.asked.label);
  return [
    menu('Decision', 'decision'),
    !setup?.blinded && menu('Flag', 'flagged'),
    !setup?.blinded && menu('Lesion mask', 'has_mask'),
    menu('Assigned', 'assigned'),
    labels && group('Label', 'label', LABELS),
    known.length > 0 && group('Tag', 'tag', known),
  ];
}
