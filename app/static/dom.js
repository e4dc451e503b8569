// Builds the page's elements. Text is always inserted as text, never as markup.

// `title` is SVG's: a tooltip inside a drawing.
const SVG = new Set('svg path line text g rect circle polyline polygon image title'.split(' '));
const PROPERTIES = new Set(['value', 'checked', 'disabled']);

/** @param {Page.Child[]} children @returns {(string | Node)[]} */
const present = (children) =>
  /** @type {(string | Node)[]} */ (children.flat(3).filter((c) => c != null && c !== false && c !== true));

/** Builds an element with attributes, event handlers (`onclick`, ...) and children: el('b', {class: 'x', onclick: fn},
 * 'text'). Attributes that are null or false are skipped; true means an attribute without value. @type
 * {Page.ElementBuilder} */
export const el = /** @type {any} */ (
  (/** @type {string} */ tag, /** @type {Record<string, any>} */ attributes = {}, /** @type {any[]} */ ...children) => {
    const node = SVG.has(tag)
      ? document.createElementNS('http://www.w3.org/2000/svg', tag)
      : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value == null || value === false) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else if (PROPERTIES.has(key)) Reflect.set(node, key, value);
      else if (/^(src|href|action)$/.test(key) && `${value}`.startsWith('/'))
        node.setAttribute(key, `.${value}`); // a proxy may serve the page below a path
      else node.setAttribute(key, value === true ? '' : value);
    }
    node.append(...present(children));
    return node;
  }
);

/**
 * Replaces an element's children; null and false are skipped. If all children are the same, nothing is touched:
 * a button that is removed and reinserted while it is pressed loses the click and the focus.
 * @template {Element} E
 * @param {E} element
 * @param {...Page.Child} children
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

/** Builds a button that runs an action and submits no form.
 * @param {Page.Child} words @param {(event: any) => unknown} onclick @param
 * {Page.Attributes} [more] */
export const action = (words, onclick, more = {}) => el('button', { type: 'button', onclick, ...more }, words);

/** Options of a menu, by value. @param {Iterable<readonly [value: string | number, words: string, title?: string]>} of */
export const options = (of) => Array.from(of, ([value, words, title]) => el('option', { value, title }, words));

/** Replaces a menu's options, keeping its value if it is still among them.
 * @param {HTMLSelectElement} menu @param {...Page.Child} children */
export function offer(menu, ...children) {
  const chosen = menu.value;
  fill(menu, ...children);
  if ([...menu.options].some(({ value }) => value === chosen)) menu.value = chosen;
}

/** A checkbox with a label. @param {Page.Child} words @param {Page.Attributes} [more] of the checkbox */
export function check(words, more = {}) {
  const box = el('input', { type: 'checkbox', ...more });
  return { box, label: el('label', { class: 'check' }, box, words) };
}

/** A cell of figures. @param {Page.Child} cell */
export const num = (cell) => el('td', { class: 'num' }, cell);

/** @param {Page.Child} cell */
const td = (cell) => (cell instanceof HTMLTableCellElement ? cell : el('td', {}, cell));

/** Builds a row of a table from its cells or their contents. @param {readonly Page.Child[]} cells
 * @param {Page.Attributes} [attributes] */
export const tr = (cells, attributes = {}) => el('tr', attributes, cells.map(td));

/** Builds a table, with a row of headings if there are any. @param {readonly string[]} heads
 * @param {Page.Child} lines @param {Page.Attributes} [attributes] */
export function table(heads, lines, attributes = {}) {
  const head = tr(heads.map((words) => el('th', { scope: 'col' }, words)));
  return el('table', attributes, heads.length > 0 && el('thead', {}, head), el('tbody', {}, lines));
}

/** Builds a confusion matrix, true by predicted class, each cell shaded by its share of the row.
 * @param {(number | null)[][]} rows @param {string} corner @param {(value: number | null, sum: number) => string} text
 * of a cell, of the row's sum @param {string} [title] */
export function matrix(rows, corner, text, title) {
  const head = (/** @type {number} */ n) => el('span', { class: 'dim' }, `A${n}`);
  const lines = rows.map((row, n) => {
    const sum = row.reduce((/** @type {number} */ a, b) => a + (b ?? 0), 0) || 1;
    const shade = (/** @type {number | null} */ v) => `background:rgba(124,196,212,${(0.7 * (v ?? 0)) / sum})`;
    return [head(n), row.map((v) => el('span', { style: shade(v) }, text(v, sum)))];
  });
  const look = { class: 'matrix', style: `grid-template-columns: repeat(${rows.length + 1}, auto)`, title };
  const heads = rows.map((_, n) => head(n));
  return el('div', look, el('span', { class: 'dim' }, corner), heads, lines);
}

/** Runs an action when Enter is pressed. @param {HTMLElement} box @param {() => unknown} act */
export const onEnter = (box, act) => box.addEventListener('keydown', (event) => event.key === 'Enter' && act());

/** Makes an element accept dropped files. @param {HTMLElement} zone @param {(event: DragEvent) => unknown} take */
export function dropZone(zone, take) {
  const over = (/** @type {boolean} */ yes) => zone.classList.toggle('over', yes);
  zone.ondragover = (event) => {
    event.preventDefault();
    over(true);
  };
  zone.ondragleave = () => over(false);
  zone.ondrop = (event) => {
    event.preventDefault();
    event.stopPropagation();
    over(false);
    take(event);
  };
}

/** Finds the elements of a widget's frame, which always exist. Only the caller knows their kind (input, select, ...),
 * hence `any`.
 * @param {ParentNode} root @returns {(selector: string) => any} */
export const finder = (root) => (selector) => root.querySelector(selector);

/** Saves a file to the reader's download folder. @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const href = URL.createObjectURL(blob);
  el('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** As `finder`, for all elements that match. @param {ParentNode} root @returns {(selector: string) => any[]} */
export const finderOfAll = (root) => (selector) => [...root.querySelectorAll(selector)];

/** Makes a menu of the page (<details>) close on Escape and on a click elsewhere. @param {HTMLDetailsElement} menu */
export function closing(menu) {
  document.addEventListener('pointerdown', ({ target }) => {
    if (target instanceof Node && !menu.contains(target)) menu.open = false;
  });
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    menu.querySelector('summary')?.focus();
  });
}
