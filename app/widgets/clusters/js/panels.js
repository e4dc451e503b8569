// The panels next to a map: the legend with its switches, and the separation of the classes in feature space.
import { useSignal } from '@preact/signals';
import { fixed } from '../../../static/format.js';
import { button, given, html } from '../../../static/view.js';
import { css, NONE, rampCss } from './palette.js';
import { alone, colour, current, hidden, scoresOf, toggle } from './state.js';

/** A labelled list to choose from. @param {{title: string, name: string, choices: [value: string, words: string][],
 * value?: string | null, choose?: (value: string) => void, help?: string, off?: string[]}} props
 * off: values that cannot be chosen */
export function Menu({ title, name, value, choices, choose, help, off = [] }) {
  const chosen = given((to) => choose?.(to));
  return html`<label>
    ${title}<select class=${name} name=${name} aria-label=${title} title=${help} value=${value} onChange=${chosen}>
      ${choices.map(([key, words]) => html`<option value=${key} disabled=${off.includes(key)}>${words}</option>`)}
    </select>
  </label>`;
}

/** What the colours mean, the counts, and switches to hide, show and isolate. */
export function Legend() {
  const { opened } = current.value;
  if (!opened.value) return null;
  const { map, columns, fit } = opened.value;
  const { column, colouring } = current.value;
  const { table = [], counts = [], low, high, unknown = 0 } = colouring.value;
  const { names = [] } = column;
  const category = (/** @type {string} */ name, /** @type {number} */ c) => {
    const label = name === '\u2013' ? 'none' : name;
    const look = { class: 'alone', 'aria-label': `Only ${label}`, title: 'Show only this' };
    return html`<${Entry} column=${column.name} name=${name} label=${label} colour=${css(table[c])} count=${counts[c]}>
      ${button('only', () => alone(column.name, name, names), look)}
    <//>`;
  };
  const end = (/** @type {number | undefined} */ v) =>
    v === undefined || !Number.isFinite(v) ? '\u2013' : Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(3);
  return html`
    <${Menu} title="Colour by" name="colour" value=${column.name}
      choices=${Array.from(columns.values(), (c) => [c.name, c.title])}
      choose=${(/** @type {string} */ name) => (colour.value = name)} />
    ${
      map.fits.length > 0 &&
      html`<${Menu} title="Scores from" name="fit" value=${fit} choices=${map.fits.map((f) => [f.id, f.name])}
        choose=${scoresOf} />`
    }
    <div class="entries">
      ${
        column.codes
          ? names.map(category)
          : html`<div class="ramp" style="background:${rampCss()}" />
            <div class="ends num"><span>${end(low)}</span><span>${end(high)}</span></div>
            ${
              unknown > 0 &&
              html`<${Entry} column=${column.name} name="unknown" label="not scored" colour=${NONE} count=${unknown} />`
            }`
      }
    </div>`;
}

/** A switch with colour, name and count. @param {{column: string, name: string, label: string, colour: string,
 * count: number, children?: any}} props */
function Entry({ column, name, label, colour, count, children }) {
  const off = hidden.value[column]?.includes(name);
  return html`<div class="entry ${off ? 'off' : ''}">
    <button type="button" class="toggle" aria-pressed=${!off} aria-label="${off ? 'Show' : 'Hide'} ${label}"
      onClick=${() => toggle(column, name)}>
      <i style="background:${colour}" /><span class="name">${label}</span>
      <span class="num count">${count.toLocaleString('en')}</span>
    </button>
    ${children}
  </div>`;
}

/** @typedef {[key: string, title: string, help: string, range: [number, number] | null]} Row */
/** @type {Row[]} */
const ROWS = [
  ['silhouette', 'Silhouette', '-1 to 1; larger: classes further apart', [-0.2, 1]],
  ['davies_bouldin', 'Davies-Bouldin', '0 and up; smaller: classes further apart', null],
  ['knn_purity', 'Neighbour purity', 'share of the 10 nearest neighbours that have the same class', [0, 1]],
  [
    'lesion_side',
    'On the lesion side',
    'share of real lesions nearer to A\u2081 to A\u2096 than to A\u2080; after the slash, of normal test images',
    [0, 1],
  ],
  ['between_within', 'Between / within', 'distance between class means / distance to the class mean', null],
];
/** @type {Row} */
const TRUSTWORTHINESS = [
  'trustworthiness',
  'Trustworthiness',
  '1 if neighbours on the map are also neighbours in feature space',
  [0.5, 1],
];
/** The reference value shown next to a number. @type {Record<string, [key: string, title: string]>} */
const BESIDE = {
  knn_purity: ['knn_chance', 'Chance level'],
  lesion_side: ['lesion_side_normal', 'Share of normal test images'],
};
/** @type {Record<string, string>} */
const KINDS = { classes: 'A\u2080 to A\u2096', lesions: 'Normal, abnormal' };

/** A small curve over the epochs, with the current one marked.
 * @param {{course: (number | null | undefined)[], at: number, range: [number, number] | null}} props */
function Curve({ course, at, range }) {
  const [w, h] = [74, 22];
  const finite = course.flatMap((v) => (v == null || !Number.isFinite(v) ? [] : [v]));
  const low = Math.min(...(range || [0]), ...finite);
  const high = Math.max(...(range || []), ...finite, low + 1e-9);
  const x = (/** @type {number} */ i) => 3 + (i / (course.length - 1)) * (w - 6);
  const y = (/** @type {number} */ v) => h - 3 - ((v - low) / (high - low)) * (h - 6);
  const now = course[at];
  const line = course.flatMap((v, i) => (v == null ? [] : `${x(i).toFixed(1)},${y(v).toFixed(1)}`)).join(' ');
  return html`<svg width=${w} height=${h} viewBox="0 0 ${w} ${h}" aria-hidden="true">
    <polyline points=${line} fill="none" stroke="var(--accent)" stroke-width="1.5" />
    ${now != null && html`<circle cx=${x(at)} cy=${y(now)} r="2.8" fill="var(--text)" />`}
  </svg>`;
}

/** The numbers of the current epoch, computed in the original feature space, with their curves. */
export function Numbers() {
  const numbers = useSignal('classes'); // the group shown
  const pane = current.value;
  if (!pane.map) return null;
  const { epochs } = pane.map.about;
  const at = pane.epochIndex.value;
  const kinds = Object.keys(epochs[at].numbers);
  const kind = kinds.includes(numbers.value) ? numbers.value : kinds[0];
  const values = epochs[at].numbers[kind] || {};
  const tab = (/** @type {string} */ name) =>
    button(KINDS[name], () => (numbers.value = name), { class: 'small', 'aria-pressed': name === kind });
  const row = (/** @type {Row} */ [key, title, help, range], /** @type {(number | null | undefined)[]} */ course) => {
    const [reference, what] = BESIDE[key] || [];
    const beside = values[reference];
    return html`<tr title=${help}>
      <th>${title}</th>
      <td class="num">
        ${fixed(course[at], 2)}
        ${beside != null && html`<span class="dim chance" title=${what}> / ${beside.toFixed(2)}</span>`}
      </td>
      <td class="curve">${course.length > 1 && html`<${Curve} course=${course} at=${at} range=${range} />`}</td>
    </tr>`;
  };
  const rows = ROWS.filter(([key]) => values[key] != null);
  const courseOf = (/** @type {string} */ key) => epochs.map((e) => e.numbers[kind]?.[key]);
  return html`<h2 title="Measured in the original feature space, not on the map">Classes, in feature space</h2>
    <div class="group which-classes">${kinds.map(tab)}</div>
    <table><tbody>
      ${rows.map((one) => row(one, courseOf(one[0])))}
      ${row(
        TRUSTWORTHINESS,
        epochs.map((e) => e.trustworthiness),
      )}
    </tbody></table>
    ${(values.warnings || []).map((/** @type {string} */ text) => html`<p class="warning">${text}</p>`)}`;
}
