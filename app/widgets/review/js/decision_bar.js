// The bar below the image: the three decisions, the comment, undo, and the way to other cases.
import { el } from '../../../static/dom.js';
import { label } from './keys.js';

/** @type {[import('../../../static/answers').Decision, string][]} */
export const DECISIONS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
];
/** The letter of a decision. @type {Record<import('../../../static/answers').Decision, string>} */
export const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' };
const STEPS = [
  ['undo', 'Undo'],
  ['previous', '‹'],
  ['next', '›'],
  ['unread', 'Next unread'],
];

/** @param {import('./keys.js').Keys} keys @param {(name: string) => void} act */
export function decisionBar(keys, act) {
  const comment = el('input', {
    type: 'text',
    class: 'rv-comment',
    placeholder: 'Comment',
    'aria-label': 'Comment',
    maxlength: 4000,
  });
  const decisions = DECISIONS.map(([name, text]) => {
    const key = el('kbd');
    const attributes = { type: 'button', class: `rv-say ${name}`, 'data-say': name, onclick: () => act(name) };
    return { name, text, key, button: el('button', attributes, key, text) };
  });
  const steps = STEPS.map(([name, text]) => ({
    name,
    text,
    button: el('button', { type: 'button', onclick: () => act(name) }, text),
  }));
  const buttons = (/** @type {{button: HTMLButtonElement}[]} */ items) => items.map((item) => item.button);
  return {
    element: el('div', { class: 'rv-decide' }, buttons(decisions), comment, buttons(steps)),
    comment,
    /** Shows which decision stands. @param {string | undefined} decision */
    mark(decision) {
      for (const { name, button } of decisions) button.setAttribute('aria-pressed', String(name === decision));
    },
    /** Says which key does what. */
    relabel() {
      for (const { name, key } of decisions) key.textContent = label(keys.of(name));
      for (const { name, text, button } of [...decisions, ...steps]) button.title = `${text} (${label(keys.of(name))})`;
      comment.title = `Comment (${label(keys.of('comment'))})`;
    },
  };
}
