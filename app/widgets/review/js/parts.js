// Small controls of the review panel: sliders, rows of buttons, names shortened in the middle.
import { action, el, finderOfAll } from '../../../static/dom.js';

/** A slider, and its value as text in the output after it. @param {HTMLInputElement} range
 * @param {{text?: (v: number) => string, input: (v: number) => void}} on */
export function slider(range, { text = String, input }) {
  const out = /** @type {Element} */ (range.nextElementSibling);
  const set = (/** @type {number} */ v) => {
    range.value = String(v);
    out.textContent = text(Number(range.value));
  };
  range.oninput = () => {
    set(Number(range.value));
    input(Number(range.value));
  };
  set(Number(range.value));
  return { range, set };
}

/** A row of buttons of which one is pressed. @param {HTMLElement} row @param {(key: string) => void} pick */
export function choice(row, pick) {
  row.onclick = (/** @type {any} */ { target }) => {
    const { key } = target.closest('[data-key]')?.dataset || {};
    if (key) pick(key);
  };
  return (/** @type {string | null} */ now) => {
    for (const one of finderOfAll(row)('[data-key]')) press(one, one.dataset.key === now);
  };
}

/** @param {Page.Child} words @param {string} title @param {() => unknown} click @param {Page.Attributes} [more] */
export const button = (words, title, click, more = {}) => action(words, click, { title, ...more });

/** @param {Element} button @param {boolean} on */
export const press = (button, on) => button.setAttribute('aria-pressed', String(on));

/** Returns how many characters at the end of a name are never cut; 0 for names such as "Case 12". @param {string} name */
export const endOf = (name, usual = 10) => (/^Case \d/.test(name) ? 0 : usual);

/** Shortens a long name in its middle, because its end differs from its neighbours'. @param {string} name */
export function inMiddle(name, end = 10) {
  if (name.length < end + 6) end = 0;
  return [
    el('span', { class: 'rv-front' }, name.slice(0, name.length - end)),
    el('span', { class: 'rv-end' }, name.slice(name.length - end)),
  ];
}

/** @type {[Answers.Decision, string][]} */
export const DECISIONS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
];
/** The letter of a decision. @type {Record<Answers.Decision, string>} */
export const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' };
