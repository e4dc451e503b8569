// Small parts of the review room: sliders, rows of buttons, shortened names, and the signs of a case in the list and grid.
import { action, finderOfAll } from '../../../static/dom.js';
import { html } from '../../../static/view.js';
import { tagsOf } from './tags.js';

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

/** A file's name without its ending. @param {string} name */
export const bare = (name) => name.replace(/\.[a-z]{2,5}$/i, '');

/** Shortens a long name in its middle, because its end differs from its neighbours'; a name such as "Case 12" is cut at
 * its end. @param {string} name @param {number} [end] characters at the end that are never cut */
export function inMiddle(name, end = 10) {
  if (name.length < end + 6 || /^Case \d/.test(name)) end = 0;
  return html`<span class="rv-front">${name.slice(0, name.length - end)}</span>
    <span class="rv-end">${name.slice(name.length - end)}</span>`;
}

/** @type {[Answers.Decision, string][]} */
export const DECISIONS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
];
/** The letter of a decision. @type {Record<Answers.Decision, string>} */
const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' };

/** The sign of a decision, or of none. @param {Answers.Decision | null} decision @param {boolean} [next] whether Space goes there */
export const sign = (decision, next = false) =>
  html`<span class="rv-mark ${decision || 'unread'} ${next ? 'rv-next' : ''}"
    title=${next ? 'unread, the next one (Space)' : decision || 'unread'}>${decision && MARK[decision]}</span>`;

/** Signs of an unsaved drawing and of readers who differ. @param {ReviewView} review @param {Answers.WorklistRow} row */
export const remarks = (review, row) => html`
  ${review.drafts.cases.has(row.id) && html`<span class="rv-draft" title="Unsaved drawing">✎</span>`}
  ${(row.disagreement || 0) > 0 && html`<span class="rv-differ" title="Readers differ">≠</span>`}`;

const MOST = 2; // tags shown in the list

/** The first tags that may be shown, and the number of others. @param {ReviewView} review @param {Answers.WorklistRow} row */
export function tagsIn(review, row) {
  const tags = tagsOf(review, row, Boolean(row.decision));
  if (!tags.length) return null;
  const shown = tags.length > MOST ? [...tags.slice(0, MOST), `+${tags.length - MOST}`] : tags;
  return html`<span class="rv-tags" title="Tags: ${tags.join(', ')}">
    ${shown.map((tag) => html`<span class="rv-tag">${tag}</span>`)}
  </span>`;
}
