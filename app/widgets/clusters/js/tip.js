// What is said beside the pointer: the point's image and its class or number.

/** What colours a point, in words. @param {import('../../../static/answers').Column} column @param {number} i */
export function valueText(column, i) {
  if (column.codes) {
    const name = column.names?.[column.codes[i]] || '';
    return name === '\u2013' ? `no ${column.title.toLowerCase()}` : name;
  }
  const value = column.values?.[i];
  return value == null ? 'not scored' : value.toPrecision(4);
}

/**
 * @param {any} tip the element: an image and a text
 * @param {HTMLElement} root what it must stay inside of
 * @param {import('./pane.js').Pane} pane
 * @param {number} i the point, or -1 to hide the tip
 * @param {number} x
 * @param {number} y
 */
export function showTip(tip, root, pane, i, x, y) {
  tip.hidden = i < 0;
  if (i < 0) return;
  const src = pane.map.thumb(i);
  const image = tip.querySelector('img');
  if (image.getAttribute('src') !== src) image.setAttribute('src', src);
  tip.querySelector('span').textContent = valueText(pane.column, i);
  const [box, whole] = [pane.host.getBoundingClientRect(), root.getBoundingClientRect()];
  const left = box.left - whole.left + x;
  tip.style.left = `${left + (left + 150 > whole.width ? -126 : 18)}px`;
  tip.style.top = `${Math.min(Math.max(box.top - whole.top + y - 40, 0), whole.height - 140)}px`;
}
