// What the page's views are made with: Preact's elements from templates (htm), and `show`, which keeps a view in its place.
import htm from 'htm';
import { h, render } from 'preact';
import '@preact/signals'; // a view that reads a signal is drawn again when it changes

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/** Draws a view into an element of the frame, which it then owns.
 * @param {Element} element @param {import('preact').ComponentType<any>} View @param {Record<string, unknown>} [props] */
export const show = (element, View, props = {}) => render(h(View, props), element);
