// Small helpers to build the page. Text always goes in as text, never as markup.

export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') element.className = value;
    else if (key === 'on') for (const [name, fn] of Object.entries(value)) element.addEventListener(name, fn);
    else if (key === 'data') Object.assign(element.dataset, value);
    else if (key in element && key !== 'list') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function slider(label, { min = 0, max = 100, step = 1, value = 0, title = '', text = (v) => v, input }) {
  const out = el('output', { class: 'rv-out' }, String(text(value)));
  const range = el('input', { type: 'range', min, max, step, value, title, 'aria-label': label });
  const set = (v) => {
    range.value = v;
    out.textContent = text(Number(range.value));
  };
  range.addEventListener('input', () => {
    out.textContent = text(Number(range.value));
    input(Number(range.value));
  });
  const row = el('label', { class: 'rv-slider' }, el('span', {}, label), range, out);
  return { row, range, set };
}

// A row of buttons of which one is down.
export function choice(label, items, pick, value) {
  const buttons = new Map();
  const row = el('div', { class: 'rv-choice', role: 'group', 'aria-label': label });
  for (const [key, text, title] of items) {
    const button = el('button', { type: 'button', title: title || text, onclick: () => pick(key) }, text);
    buttons.set(key, button);
    row.append(button);
  }
  const set = (key) => {
    for (const [k, b] of buttons) b.setAttribute('aria-pressed', String(k === key));
  };
  set(value);
  return { row, set, buttons };
}

// A name that does not fit is cut in its middle: its end is what tells it from its neighbours.
export function inMiddle(name, end = 10) {
  if (name.length < end + 6) end = 0;
  return [
    el('span', { class: 'rv-front' }, name.slice(0, name.length - end)),
    el('span', { class: 'rv-end' }, name.slice(name.length - end)),
  ];
}

export function clamp(v, lo, hi) {
  return Math.min(hi, Math.max(lo, v));
}

export function percent(v, digits = 1) {
  return `${(100 * v).toFixed(digits)} %`;
}
