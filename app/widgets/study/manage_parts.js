// Parts of the administrator's forms.
import { el } from '../../static/dom.js';

/** @param {() => unknown} submit @param {...Page.Child} parts */
export const form = (submit, ...parts) =>
  el(
    'form',
    {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        submit();
      },
    },
    ...parts,
  );

/** A field for a path on this machine. @param {string} text @param {string} [value] */
export function path(text, value = '') {
  const box = el('input', {
    type: 'text',
    class: 'path',
    value,
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-label': text,
  });
  return { box, label: el('label', {}, text, box) };
}
