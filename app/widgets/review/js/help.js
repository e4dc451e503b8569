// The help sheet: every key, and how to change it.

import { post } from '../../../static/api.js';
import { action, el, fill } from '../../../static/dom.js';
import { ACTS, GROUPS, label } from './keys.js';

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys */
export function helpSheet(review, keys) {
  const rows = el('div', { class: 'rv-keys' });
  const note = el('p', { class: 'dim', role: 'status' }, 'Click a key to change it.');
  const close = action('Close', () => sheet.close(), { class: 'main' });
  const sheet = el(
    'dialog',
    { class: 'rv-help widget' },
    el('h2', {}, 'Keys'),
    rows,
    el(
      'p',
      { class: 'dim' },
      'Wheel or pinch zooms, drag pans, double click fits; flips and turns last until the next case. The right button changes window and level. While drawing, Alt erases; a click with Alt or Shift says what is outside. The numbers 1 to 9 record a finding of that label: the drawn mask, the box or point that was placed, or the point under the pointer.',
    ),
    el(
      'p',
      { class: 'dim' },
      'In the grid: arrows move, Shift with arrows selects a range, X selects one case, T tags what is selected, Enter opens the case, Space goes to the next unread one, Escape selects nothing.',
    ),
    note,
    el('div', { class: 'rv-head' }, close),
  );
  const draw = () =>
    fill(
      rows,
      ACTS.flatMap(([act, , text]) => {
        const button = action(
          label(keys.of(act)),
          async () => {
            button.textContent = 'press …';
            note.textContent = 'Press the new key; Escape keeps the old one.';
            const changed = await keys.change(act);
            if (changed?.taken)
              note.textContent = `${label(changed.key)} already does: ${ACTS.find(([a]) => a === changed.taken)?.[2]}. Change that first.`;
            else {
              note.textContent = changed ? `Changed to ${label(changed.key)}.` : 'Kept.';
              if (changed) post('/api/review/settings', { keys: keys.own });
            }
            draw();
            review.relabel();
          },
          { class: 'rv-key' },
        );
        const line = el('div', {}, button, el('span', {}, text));
        return GROUPS[act] ? [el('h3', {}, GROUPS[act]), line] : [line];
      }),
    );
  sheet.addEventListener('cancel', (event) => keys.waiting && event.preventDefault());
  sheet.addEventListener('keydown', (event) => {
    if (!keys.waiting && event.key.toLowerCase() === keys.of('help')) {
      event.stopPropagation();
      sheet.close();
    }
  });
  return {
    element: sheet,
    open() {
      draw();
      if (!sheet.open) sheet.showModal();
    },
  };
}
