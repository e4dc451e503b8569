// Small controls of the review panel: sliders, rows of buttons, names shortened in the middle.
import { action, el } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';

/** @param {string} label @param {{min?: number, max?: number, step?: number, value?: number, title?: string, text?: (v:
 * number) => string, input: (v: number) => void}} options */
export function slider(label, { min = 0, max = 100, step = 1, value = 0, title = '', text = String, input }) {
  const out = el('output', { class: 'rv-out' }, text(value));
  const range = el('input', { type: 'range', min, max, step, value, title, 'aria-label': label });
  const set = (/** @type {number} */ v) => {
    range.value = String(v);
    out.textContent = text(Number(range.value));
  };
  range.addEventListener('input', () => {
    out.textContent = text(Number(range.value));
    input(Number(range.value));
  });
  const row = el('label', { class: 'rv-slider' }, el('span', {}, label), range, out);
  return { row, range, set };
}

/** A row of buttons of which one is pressed.
 * @param {string} label @param {[key: string, text: string, title?: string][]} items @param {(key: string) => void}
 * pick @param {string | null} value */
export function choice(label, items, pick, value) {
  const buttons = items.map(([key, text, title = text]) => ({ key, made: button(text, title, () => pick(key)) }));
  const row = el('div', { class: 'rv-choice', role: 'group', 'aria-label': label });
  row.append(...buttons.map(({ made }) => made));
  const set = (/** @type {string | null} */ now) => {
    for (const { key, made } of buttons) press(made, key === now);
  };
  set(value);
  return { row, set };
}

/** @param {Page.Child} words @param {string} title @param {() => unknown} click @param {Page.Attributes} [more] */
export const button = (words, title, click, more = {}) => action(words, click, { title, ...more });

/** A button with a drawn sign. @param {string} d its path @param {string} name @param {string} title @param {() =>
 * unknown} click */
export const icon = (d, name, title, click) =>
  button(dom`<svg viewBox="0 0 16 16" aria-hidden="true"><path d=${d} /></svg>`, title, click, {
    class: 'rv-glyph',
    'aria-label': name,
  });

/** A toggle button, with its key in the tooltip. @param {string} text @param {string} key @param {() => void} click */
export const toggle = (text, key, click, title = `${text} (${key})`) =>
  button(text, title, click, { class: 'rv-toggle', 'aria-pressed': 'false' });

/** @param {Element} button @param {boolean} on */
export const press = (button, on) => button.setAttribute('aria-pressed', String(on));

/** How many characters of a name stay at its end: of a case's number and day the number goes last. @param {string} name */
export const endOf = (name, usual = 10) => (/^Case \d/.test(name) ? 0 : usual);

/** Shortens a long name in its middle, because its end differs from its neighbours'. @param {string} name */
export function inMiddle(name, end = 10) {
  if (name.length < end + 6) end = 0;
  return [
    el('span', { class: 'rv-front' }, name.slice(0, name.length - end)),
    el('span', { class: 'rv-end' }, name.slice(name.length - end)),
  ];
}
