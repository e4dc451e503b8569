// The controls of a form's fields: one function per kind. Each returns the elements next to the label, below it or
// before it, and `put`, which shows a value.
import { api } from './api.js';
import { el, options } from './dom.js';

/** @typedef {{beside?: HTMLElement, body?: HTMLElement, inline?: HTMLElement, put: (value: any) => void}} Control */
/** @template {Answers.Field} [F=Answers.Field] @typedef {(field: F, id: string, changed: (value: any) => void) => Control} Maker */

/** Formats a number without needless digits. @param {number} v */
export const tidy = (v) => (Math.abs(v) >= 100 || Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(4))));

/** Maps values to positions on a slider, and back. @param {Pick<Answers.NumberField, 'log' | 'kind'> & {min: number}} field */
export function sliderScale({ log, min, kind }) {
  const round = (/** @type {number} */ v) => (kind === 'integer' ? Math.round(v) : Number(v.toPrecision(6)));
  return {
    place: (/** @type {number} */ v) => (log ? Math.log10(Math.max(v, min)) : v),
    value: (/** @type {number} */ at) => round(log ? Number((10 ** at).toPrecision(3)) : at),
    round,
  };
}

/** @type {Maker<Answers.NumberField>} */
function number(f, id, changed) {
  const { min, max, log } = f;
  const box = el('input', { type: 'number', id, step: log ? 'any' : f.step, min, max });
  if (min === null || max === null || (f.kind === 'integer' && max - min > 1000)) {
    box.onchange = () => changed(Number(box.value));
    return { beside: box, put: (v) => (box.value = v) };
  }
  const { place, value, round } = sliderScale({ ...f, min });
  const ends = { min: place(min), max: place(max), step: log ? 0.01 : f.step };
  const bar = el('input', { type: 'range', ...ends, 'aria-label': f.label });
  const inBox = (/** @type {number} */ v) => (box.value = tidy(v));
  const onBar = (/** @type {number} */ v) => (bar.value = String(place(v)));
  bar.oninput = () => {
    const v = value(Number(bar.value));
    inBox(v);
    changed(v);
  };
  box.onchange = () => {
    const v = round(Number(box.value));
    onBar(v);
    changed(v);
  };
  return { beside: box, body: bar, put: (v) => [inBox(v), onBar(v)] };
}

/** @type {Maker<Answers.RangeField>} */
function range(f, id, changed) {
  const { min, max, step } = f;
  const bars = ['lowest', 'highest'].map((name, i) =>
    el('input', { type: 'range', id: i ? `${id}-high` : id, min, max, step, 'aria-label': `${f.label}, ${name}` }),
  );
  const values = el('output', { class: 'num' });
  const track = el('div', { class: 'two' }, el('i'), bars);
  const put = (/** @type {number[]} */ ends) => {
    ends.forEach((v, i) => {
      bars[i].value = String(v);
      track.style.setProperty(['--low', '--high'][i], `${(100 * (v - min)) / (max - min)}%`);
    });
    values.textContent = ends.map(tidy).join(' – ');
    bars[0].style.zIndex = ends[0] > (min + max) / 2 ? '2' : '1';
  };
  bars.forEach((bar, i) => {
    bar.oninput = () => {
      const ends = bars.map((b) => Number(b.value));
      if (ends[0] > ends[1]) ends[1 - i] = ends[i]; // the bars push each other
      put(ends);
      changed(ends);
    };
  });
  return { beside: values, body: track, put };
}

/** Shows a value, also one that is not among the options. @param {HTMLSelectElement} select */
const putOption = (select) => (/** @type {string} */ v) => {
  if (![...select.options].some((o) => o.value === v)) select.append(el('option', { value: v }, v));
  select.value = v;
};

/** @type {Maker<Answers.ChoiceField>} */
function choice(f, id, changed) {
  const select = el('select', { id, onchange: () => changed(select.value) }, options(f.options.map((o) => [o, o])));
  return { beside: select, put: putOption(select) };
}

/** Builds a list of the studies, fetched again whenever it is about to open. @type {Maker} */
function study(_, id, changed) {
  const select = el('select', { id, onchange: () => changed(select.value) }, el('option', { value: '' }, 'none'));
  const fill = async () => {
    const { studies } = await api('/api/medmix/donors').catch(() => ({ studies: [] }));
    const now = select.value;
    const known = studies.some((s) => s.id === now) || !now ? studies : [...studies, { id: now, name: now }];
    select.replaceChildren(...options([['', 'none'], ...known.map((s) => /** @type {const} */ ([s.id, s.name]))]));
    select.value = now;
  };
  select.onpointerdown = select.onfocus = fill;
  fill();
  return { beside: select, put: putOption(select) };
}

/** A click selects one option; with Shift or Ctrl it adds or removes one. @type {Maker<Answers.ChoiceField>} */
function several(f, id, changed) {
  const buttons = f.options.map((o, i) =>
    el('button', { type: 'button', id: i ? null : id, 'aria-pressed': 'false', 'data-option': o }, f.names[o] || o),
  );
  const pressed = (/** @type {Element} */ b) => b.getAttribute('aria-pressed') === 'true';
  const press = (/** @type {Element} */ b, /** @type {boolean} */ on) => b.setAttribute('aria-pressed', String(on));
  for (const button of buttons) {
    button.onclick = (event) => {
      if (event.shiftKey || event.ctrlKey || event.metaKey) {
        if (pressed(button) && buttons.filter(pressed).length === 1) return;
        press(button, !pressed(button));
      } else for (const b of buttons) press(b, b === button);
      const chosen = buttons.filter(pressed);
      changed(chosen.map((b) => b.dataset.option).join('+'));
    };
  }
  const group = { class: 'several', role: 'group', 'aria-label': f.label, title: 'Shift-click to choose several' };
  return {
    body: el('div', group, buttons),
    put: (v) => {
      const chosen = v === 'mixed' ? f.options : v.split('+');
      for (const b of buttons) press(b, chosen.includes(b.dataset.option));
    },
  };
}

/** @type {Maker} */
function flag(_, id, changed) {
  const box = el('input', { type: 'checkbox', id, onchange: () => changed(box.checked) });
  return { inline: box, put: (v) => (box.checked = v) };
}

/** @type {Maker<Answers.NumbersField>} */
function numbers(f, id, changed) {
  const { min, max, step, names } = f;
  const onchange = () => changed(boxes.map((x) => Number(x.value)));
  const boxes = names.map((name, i) => {
    const look = { id: i ? null : id, min, max, step: step || 'any', 'aria-label': `${f.label}, ${name}` };
    return el('input', { type: 'number', ...look, onchange });
  });
  const labels = boxes.map((box, i) => el('label', {}, names[i], box));
  const put = (/** @type {number[]} */ values) => values.forEach((v, i) => (boxes[i].value = tidy(v)));
  return { body: el('div', { class: 'numbers' }, labels), put };
}

/** A text, or several separated by commas. @type {Maker} */
function text(_, id, changed) {
  let list = false;
  const split = (/** @type {string} */ s) => s.split(',').flatMap((t) => t.trim() || []);
  const box = el('input', { type: 'text', id, onchange: () => changed(list ? split(box.value) : box.value) });
  return {
    beside: box,
    put: (v) => {
      list = Array.isArray(v);
      box.value = list ? v.join(', ') : (v ?? '');
    },
  };
}

/** @type {Record<Answers.Field['kind'], Maker<any>>} */
export const CONTROLS = { number, integer: number, range, choice, study, several, flag, numbers, text };
