// The help sheet: every key, and how to change it.

import { post } from '../../../static/api.js';
import { action, el, fill } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { ACTS, GROUPS, label } from './keys.js';

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys */
export function helpSheet(review, keys) {
  const rows = el('div', { class: 'rv-keys' });
  const note = el('p', { class: 'dim', role: 'status' }, 'Click a key to change it.');
  /** @type {HTMLDialogElement} */
  const sheet = dom`<dialog class="rv-help widget">
    <h2>Keys</h2>
    ${rows}
    <p class="dim">
      Wheel or pinch zooms, drag pans, double click fits; flips and turns last until the next case. The right button
      changes window and level. While drawing, Alt erases; a click with Alt or Shift says what is outside. The numbers
      1 to 9 record a finding of that label: the drawn mask, the box or point that was placed, or the point under the
      pointer.
    </p>
    <p class="dim">
      In the grid: arrows move, Shift with arrows selects a range, X selects one case, T tags what is selected, Enter
      opens the case, Space goes to the next unread one, Escape selects nothing.
    </p>
    ${note}
    <div class="rv-head">${action('Close', () => sheet.close(), { class: 'main' })}</div>
  </dialog>`;
  /** @param {string} act @param {HTMLButtonElement} button */
  async function change(act, button) {
    button.textContent = 'press …';
    note.textContent = 'Press the new key; Escape keeps the old one.';
    const changed = await keys.change(act);
    const { key = '', taken } = changed || {};
    const does = ACTS.find(([name]) => name === taken)?.[2];
    const done = changed ? `Changed to ${label(key)}.` : 'Kept.';
    note.textContent = taken ? `${label(key)} already does: ${does}. Change that first.` : done;
    if (changed && !taken) post('/api/review/settings', { keys: keys.own });
    draw();
    review.relabel();
  }
  const line = (/** @type {typeof ACTS[number]} */ [act, , text]) => {
    const button = action(label(keys.of(act)), () => change(act, button), { class: 'rv-key' });
    return [GROUPS[act] && el('h3', {}, GROUPS[act]), dom`<div>${button}<span>${text}</span></div>`];
  };
  const draw = () => fill(rows, ACTS.map(line));
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
