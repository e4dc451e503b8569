// The controls of a form's fields, as views: one function per kind. Each returns what stands next to the label (beside),
// below it (body) or before it (inline).
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from './api.js';
import { choices, given, html } from './view.js';

/** @typedef {{beside?: any, body?: any, inline?: any}} Control */
/** @template {Answers.Field} [F=Answers.Field]
 * @typedef {(field: F, id: string, value: any, changed: (value: any) => void) => Control} Maker */

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
function number({ kind, label, min, max, step, log }, id, value, changed) {
  const box = { type: 'number', id, step: log ? 'any' : step, min, max };
  if (min === null || max === null || (kind === 'integer' && max - min > 1000))
    return { beside: html`<input ...${box} value=${value} onChange=${given((v) => changed(Number(v)))} />` };
  const scale = sliderScale({ log, min, kind });
  const bar = { type: 'range', min: scale.place(min), max: scale.place(max), step: log ? 0.01 : step };
  const typed = given((v) => changed(scale.round(Number(v))));
  const slid = given((v) => changed(scale.value(Number(v))));
  return {
    beside: html`<input ...${box} value=${tidy(value)} onChange=${typed} />`,
    body: html`<input ...${bar} value=${scale.place(value)} aria-label=${label} onInput=${slid} />`,
  };
}

/** @type {Maker<Answers.RangeField>} */
function range({ label, min, max, step }, id, [low, high], changed) {
  const share = (/** @type {number} */ v) => `${(100 * (v - min)) / (max - min)}%`;
  const bar = (/** @type {Record<string, unknown>} */ more, /** @type {(v: number) => number[]} */ ends) =>
    html`<input type="range" min=${min} max=${max} step=${step} ...${more}
      onInput=${given((v) => changed(ends(Number(v))))} />`;
  // The bars push each other; of two at the upper end the lower one is on top.
  const lowest = { id, value: low, 'aria-label': `${label}, lowest`, style: low > (min + max) / 2 && 'z-index: 2' };
  const highest = { id: `${id}-high`, value: high, 'aria-label': `${label}, highest`, style: 'z-index: 1' };
  return {
    beside: html`<output class="num">${tidy(low)} – ${tidy(high)}</output>`,
    body: html`<div class="two" style="--low: ${share(low)}; --high: ${share(high)}">
      <i />${bar(lowest, (v) => [v, Math.max(v, high)])}${bar(highest, (v) => [Math.min(low, v), v])}
    </div>`,
  };
}

/** Offers the options, and values from elsewhere. @type {Maker<Answers.ChoiceField>} */
function choice({ options }, id, value, changed) {
  const all = useRef(new Set(options)).current.add(value);
  return {
    beside: html`<select id=${id} value=${value} onChange=${given(changed)}>
      ${choices([...all].map((o) => [o, o]))}
    </select>`,
  };
}

/** A list of the studies, fetched again whenever it is about to open. @type {Maker} */
function study(_, id, value, changed) {
  const [studies, setStudies] = useState(/** @type {{id: string, name: string}[]} */ ([]));
  const renew = () => void api('/api/medmix/donors').then(({ studies }) => setStudies(studies), console.debug);
  useEffect(renew, []);
  const known = !value || studies.some((s) => s.id === value) ? studies : [...studies, { id: value, name: value }];
  return {
    beside: html`<select id=${id} value=${value} onChange=${given(changed)} onPointerDown=${renew} onFocus=${renew}>
      ${choices([['', 'none'], ...known.map((s) => [s.id, s.name])])}
    </select>`,
  };
}

/** A click selects one option; with Shift or Ctrl it adds or removes one. @type {Maker<Answers.ChoiceField>} */
function several({ label, options, names }, id, value, changed) {
  const chosen = value === 'mixed' ? options : value.split('+');
  const button = (/** @type {string} */ one, /** @type {number} */ i) => {
    const press = (/** @type {MouseEvent} */ { shiftKey, ctrlKey, metaKey }) => {
      const turned = options.filter((o) => chosen.includes(o) !== (o === one));
      const next = shiftKey || ctrlKey || metaKey ? turned : [one];
      if (next.length) changed(next.join('+'));
    };
    return html`<button type="button" id=${i ? null : id} aria-pressed=${String(chosen.includes(one))}
      data-option=${one} onClick=${press}>${names[one] || one}</button>`;
  };
  return {
    body: html`<div class="several" role="group" aria-label=${label} title="Shift-click to choose several">
      ${options.map(button)}
    </div>`,
  };
}

/** @type {Maker} */
const flag = (_, id, value, changed) => ({
  inline: html`<input type="checkbox" id=${id} checked=${value} onChange=${() => changed(!value)} />`,
});

/** @type {Maker<Answers.NumbersField>} */
function numbers({ label, names, min, max, step }, id, value, changed) {
  const box = (/** @type {string} */ name, /** @type {number} */ i) =>
    html`<label>${name}<input type="number" id=${i ? null : id} min=${min} max=${max} step=${step || 'any'}
      value=${tidy(value[i])} aria-label="${label}, ${name}"
      onChange=${given((v) => changed(value.with(i, Number(v))))} /></label>`;
  return { body: html`<div class="numbers">${names.map(box)}</div>` };
}

/** A text, or several separated by commas. @type {Maker} */
function text(_, id, value, changed) {
  const list = Array.isArray(value);
  const split = (/** @type {string} */ s) => s.split(',').flatMap((t) => t.trim() || []);
  const typed = given((v) => changed(list ? split(v) : v));
  return { beside: html`<input type="text" id=${id} value=${list ? value.join(', ') : value} onChange=${typed} />` };
}

/** @type {Record<Answers.Field['kind'], Maker<any>>} */
export const CONTROLS = { number, integer: number, range, choice, study, several, flag, numbers, text };
