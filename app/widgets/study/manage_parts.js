// Parts of the administrator's forms.
import { el } from '../../static/dom.js';

/** @param {() => unknown} submit @param {...Page.Child} parts */
export function form(submit, ...parts) {
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  };
  return el('form', { onsubmit }, ...parts);
}

/** A field for a path on this machine. @param {string} text @param {string} [value] */
export function path(text, value = '') {
  const look = { type: 'text', class: 'path', autocomplete: 'off', spellcheck: 'false' };
  const box = el('input', { ...look, value, 'aria-label': text });
  return { box, label: el('label', {}, text, box) };
}
