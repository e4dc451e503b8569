// Templates (htm): of the page's elements, and of Preact views, which `show` renders in place.
import htm from 'htm';
import { h, render } from 'preact';
import '@preact/signals'; // a view that reads a signal is redrawn when the signal changes
import { el } from './dom.js';

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/** A button that runs an action and submits no form, as a view.
 * @param {unknown} words @param {(event: any) => unknown} act @param {Record<string, unknown>} [more] */
export const button = (words, act, more = {}) =>
  html`<button type="button" onClick=${act} ...${more}>${words}</button>`;

/** Passes on the value of a box or menu. @param {(value: string) => unknown} act */
export function given(act) {
  return (/** @type {any} */ { target }) => act(target.value);
}

/** Options of a menu, as views. @param {Iterable<readonly unknown[]>} of value, words */
export const choices = (of) =>
  Array.from(of, ([value, words]) => html`<option key=${value} value=${value}>${words}</option>`);

/** A table as a view, with a row of headings if there are any. @param {readonly unknown[]} heads @param {unknown} rows
 * @param {Record<string, unknown>} [more] */
export const tableOf = (heads, rows, more) => html`<table ...${more}>
  ${heads.length > 0 && html`<thead><tr>${heads.map((words) => html`<th scope="col">${words}</th>`)}</tr></thead>`}
  <tbody>${rows}</tbody>
</table>`;

/** Builds elements as `el` does, from a template: dom`<p class="dim">${text}</p>`; of several elements, a list.
 * @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const dom = htm.bind(
  /** @this {number[]} @param {any} tag @param {Page.Attributes | null} attributes @param {Page.Child[]} children */
  function (tag, attributes, ...children) {
    this[0] = 3; // without it, htm would use one element in two places
    return el(tag, attributes || {}, ...children);
  },
);

/** Renders a view into an element of the frame, which it then owns.
 * @param {Element} element @param {import('preact').ComponentType<any>} View @param {Record<string, unknown>} [props] */
export const show = (element, View, props = {}) => render(h(View, props), element);
