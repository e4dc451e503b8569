// The bar below the image: the three decisions, the comment, undo, and navigation between cases.
import { action, el } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { label } from './keys.js';

/** @type {[Answers.Decision, string][]} */
export const DECISIONS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
];
/** The letter of a decision. @type {Record<Answers.Decision, string>} */
export const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' };
const STEPS = [
  ['undo', 'Undo'],
  ['previous', '‹'],
  ['next', '›'],
  ['unread', 'Next unread'],
];

/** @param {import('./keys.js').Keys} keys @param {(name: string) => void} act */
export function decisionBar(keys, act) {
  const comment = dom`
    <input type="text" class="rv-comment" placeholder="Comment" aria-label="Comment" maxlength="4000" />`;
  const rating = dom`<input type="range" min="0" max="100" step="1" value="50" aria-label="Rating" />`;
  const rated = el('output', { class: 'num' }, '–');
  let moved = false;
  rating.oninput = () => {
    moved = true;
    rated.textContent = rating.value;
  };
  const ends = '0: surely normal; 100: surely abnormal';
  const scale = el('label', { class: 'rv-rating', hidden: true, title: ends }, rating, rated);
  const decisions = DECISIONS.map(([name, text]) => {
    const key = el('kbd');
    const look = { class: `rv-say ${name}`, 'data-say': name };
    return { name, text, key, button: action([key, text], () => act(name), look) };
  });
  const steps = STEPS.map(([name, text]) => ({ name, text, button: action(text, () => act(name)) }));
  const buttons = (/** @type {{button: HTMLButtonElement}[]} */ items) => items.map((item) => item.button);
  return {
    element: el('div', { class: 'rv-decide' }, scale, buttons(decisions), comment, buttons(steps)),
    comment,
    /** Returns 0 to 100, if a trial requires a rating and the slider was moved. @returns {number | undefined} */
    rating: () => (scale.hidden || !moved ? undefined : Number(rating.value)),
    /** Asks for a rating of the current case, or for none. @param {boolean} wanted @param {boolean} anew */
    rate(wanted, anew) {
      scale.hidden = !wanted;
      if (!anew) return;
      moved = false;
      rating.value = '50';
      rated.textContent = '–';
    },
    /** Shows the current decision. @param {string | undefined} decision */
    mark(decision) {
      for (const { name, button } of decisions) button.setAttribute('aria-pressed', String(name === decision));
    },
    /** Shows the keys of the buttons. */
    relabel() {
      for (const { name, key } of decisions) key.textContent = label(keys.of(name));
      for (const { name, text, button } of [...decisions, ...steps]) button.title = `${text} (${label(keys.of(name))})`;
      comment.title = `Comment (${label(keys.of('comment'))})`;
    },
  };
}
