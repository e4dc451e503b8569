// Builds the page's elements. Text always goes in as text, never as markup.

const SVG = new Set(
  'svg path line text g rect circle polyline polygon image title'.split(' '), // `title` is SVG's: a tooltip inside a drawing
);
const PROPERTIES = new Set(['value', 'checked', 'disabled']);

/** @param {import('./types').Child[]} children @returns {(string | Node)[]} */
const present = (children) =>
  /** @type {(string | Node)[]} */ (children.flat(3).filter((c) => c != null && c !== false && c !== true));

/**
 * An element with attributes, event handlers (`onclick`, ...) and children: el('b', {class: 'x', onclick: fn}, 'text').
 * Attributes that are null or false are left out, true stands for an attribute without value.
 * @type {import('./types').ElementBuilder}
 */
export const el = /** @type {any} */ (
  (/** @type {string} */ tag, /** @type {Record<string, any>} */ attributes = {}, /** @type {any[]} */ ...children) => {
    const node = SVG.has(tag)
      ? document.createElementNS('http://www.w3.org/2000/svg', tag)
      : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value == null || value === false) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else if (PROPERTIES.has(key)) Reflect.set(node, key, value);
      else node.setAttribute(key, value === true ? '' : value);
    }
    node.append(...present(children));
    return node;
  }
);

/**
 * Replaces what an element holds; null and false are left out. What it holds already stays untouched where all of it
 * does: a button that is taken out and put back while it is pressed loses the click, and the focus.
 * @template {Element} E
 * @param {E} element
 * @param {...import('./types').Child} children
 * @returns {E}
 */
export function fill(element, ...children) {
  const wanted = present(children);
  const now = element.childNodes;
  const is = (/** @type {string | Node} */ child, /** @type {Node} */ node) =>
    child === node || (node.nodeType === Node.TEXT_NODE && child === node.nodeValue);
  const same = wanted.length === now.length && wanted.every((child, i) => is(child, now[i]));
  if (!same) element.replaceChildren(...wanted);
  return element;
}

/**
 * Draws a list anew, but not while the mouse or a finger is down on it: a row that is exchanged then loses the click.
 * @param {Element} element
 * @param {() => void} draw
 */
export function whenLetGo(element, draw) {
  if (!element.matches(':active')) {
    draw();
    return;
  }
  const events = ['pointerup', 'pointercancel'];
  const later = () => {
    for (const name of events) removeEventListener(name, later);
    setTimeout(() => whenLetGo(element, draw));
  };
  for (const name of events) addEventListener(name, later);
}

/**
 * Finds the parts of a widget's frame, which are always there. Their kind (input, select, ...) is known to the caller
 * alone, hence `any`.
 * @param {ParentNode} root
 * @returns {(selector: string) => any}
 */
export const finder = (root) => (selector) => root.querySelector(selector);

/**
 * Hands a file to the reader's download folder.
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const href = URL.createObjectURL(blob);
  el('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** As `finder`, for all parts that match. @param {ParentNode} root @returns {(selector: string) => any[]} */
export const finderOfAll = (root) => (selector) => [...root.querySelectorAll(selector)];

/** A menu of the page (<details>) closes on Escape. @param {HTMLDetailsElement} menu */
export function closeOnEscape(menu) {
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.querySelector('summary')?.focus();
  });
}
