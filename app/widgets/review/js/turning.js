// Buttons that flip and turn the view, and the label on the image that shows it.
import { action, el } from '../../../static/dom.js';
import { inWords } from './orientation.js';

/** @type {[act: string, text: string, name: string, title: string][]} */
const BUTTONS = [
  ['across', '⇆', 'Flip left to right', 'Flip the view left to right ( , )'],
  ['down', '⇅', 'Flip upside down', 'Flip the view upside down ( . )'],
  ['right', '↻ 90°', 'Turn right', 'Turn the view by 90° to the right (J)'],
];

/** @param {ReviewView} review */
export function turnButtons(review) {
  const buttons = BUTTONS.map(([act, text, name, title]) =>
    action(text, () => review.act(act), { 'aria-label': name, title }),
  );
  return el('div', { class: 'rv-head rv-window', role: 'group', 'aria-label': 'Orientation of the view' }, buttons);
}

/** @param {(name: string) => void} act */
export function turnedMark(act) {
  const element = el('button', {
    type: 'button',
    class: 'rv-turned',
    hidden: true,
    title: 'Not as the image is stored; click, or F, shows it upright',
    onclick: () => act('fit'),
  });
  return {
    element,
    /** @param {import('./orientation.js').Turn} turn */
    show(turn) {
      const words = inWords(turn);
      element.hidden = !words;
      if (element.textContent !== words) element.textContent = words;
    },
  };
}
