// Tools for the page's views: Preact elements from templates (htm), and `show`, which renders a view in place.
import htm from 'htm';
import { h, render } from 'preact';
import '@preact/signals'; // a view that reads a signal is redrawn when the signal changes

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/** Renders a view into an element of the frame, which it then owns.
 * @param {Element} element @param {import('preact').ComponentType<any>} View @param {Record<string, unknown>} [props] */
export const show = (element, View, props = {}) => render(h(View, props), element);
