// The bar below the image: the three decisions, the comment, undo, and navigation between cases.
import { finder, finderOfAll } from '../../../static/dom.js';
import { label } from './keys.js';
import { press } from './parts.js';

/** @type {[Answers.Decision, string][]} */
export const DECISIONS = [
  ['normal', 'Normal'],
  ['abnormal', 'Abnormal'],
  ['unsure', 'Unsure'],
];
/** The letter of a decision. @type {Record<Answers.Decision, string>} */
export const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' };

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys */
export function decisionBar(review, keys) {
  const bar = review.$('.rv-decide');
  const parts = ['.rv-comment', '.rv-rating', '.rv-rating input', '.rv-rating output'];
  const [comment, scale, rating, rated] = parts.map(finder(bar));
  let moved = false;
  rating.oninput = () => {
    moved = true;
    rated.textContent = rating.value;
  };
  return {
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
      for (const one of finderOfAll(bar)('[data-say]')) press(one, one.dataset.say === decision);
    },
    /** Shows the keys of the buttons. */
    relabel() {
      for (const one of finderOfAll(bar)('[data-act]')) {
        const key = label(keys.of(one.dataset.act));
        one.title = `${one.lastChild.textContent} (${key})`;
        if (one.dataset.say) one.firstChild.textContent = key;
      }
      comment.title = `Comment (${label(keys.of('comment'))})`;
    },
  };
}
