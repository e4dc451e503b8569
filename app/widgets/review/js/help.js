// The help sheet: every key, and how to change it.

import { post } from '../../../static/api.js';
import { action, el, fill, finder } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { ACTS, GROUPS, label } from './keys.js';

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys */
export function helpSheet(review, keys) {
  const sheet = review.$('.rv-help');
  const [rows, note, close] = ['.rv-keys', '.rv-said', '.main'].map(finder(sheet));
  close.onclick = () => sheet.close();
  /** @param {string} act @param {HTMLButtonElement} button */
  async function change(act, button) {
    button.textContent = 'press …';
    note.textContent = 'Press the new key; Escape keeps the old one.';
    const changed = await keys.change(act);
    const { key = '', taken } = changed || {};
    const does = ACTS.find(([name]) => name === taken)?.[2];
    const done = changed ? `Changed to ${label(key)}.` : 'Not changed.';
    note.textContent = taken ? `${label(key)} is already the key for: ${does}. Change that first.` : done;
    if (changed && !taken) post('/api/review/settings', { keys: keys.own });
    draw();
    review.relabel();
  }
  const line = (/** @type {typeof ACTS[number]} */ [act, , text]) => {
    const button = action(label(keys.of(act)), () => change(act, button), { class: 'rv-key' });
    return [GROUPS[act] && el('h3', {}, GROUPS[act]), dom`<div>${button}<span>${text}</span></div>`];
  };
  const draw = () => fill(rows, ACTS.map(line));
  sheet.oncancel = (/** @type {Event} */ event) => keys.waiting && event.preventDefault();
  sheet.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (!keys.waiting && event.key.toLowerCase() === keys.of('help')) {
      event.stopPropagation();
      sheet.close();
    }
  };
  return {
    element: sheet,
    open() {
      draw();
      if (!sheet.open) sheet.showModal();
    },
  };
}
