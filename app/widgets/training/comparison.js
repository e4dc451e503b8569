// Comparison of several runs: a chart for each chosen metric, with a curve per run, and the settings in which they differ.
import { signal } from '@preact/signals';
import { COLOURS } from '../../static/chart.js';
import { html } from '../../static/view.js';
import { Curves, METRICS, metricName } from './figures.js';

const UNSEEN = /^(epochs|epoch|seen|memory)$/;

export const compared = signal(/** @type {Answers.Compared | null} */ (null));
const chosen = signal(['loss', 'val_accuracy']); // the drawn metrics

/** The metrics to compare, those with a name first. @param {Answers.Series[]} series */
export function measuresOf(series) {
  const names = [...new Set(series.flatMap(Object.keys))].filter((n) => !UNSEEN.test(n)).sort();
  const rank = (/** @type {string} */ n) => Object.keys(METRICS).indexOf(n.replace('val_', '')) >>> 0; // none: last
  return names.sort((a, b) => rank(a) - rank(b));
}

/** @param {{compared: Answers.Compared}} props */
function Differences({ compared: { runs, differences: rows } }) {
  if (!rows.length) return html`<p class="dim">None: these runs have the same settings.</p>`;
  const show = (/** @type {any} */ v) => (v == null ? '–' : Array.isArray(v) ? v.join(', ') : String(v));
  return html`<table>
    <tr><th scope="col">Setting</th>${runs.map((r, i) => html`<th scope="col" style="color:${COLOURS[i]}">${r.name}</th>`)}</tr>
    ${rows.map(({ key, values }) => html`<tr><td class="dim">${key}</td>${values.map((v) => html`<td>${show(v)}</td>`)}</tr>`)}
  </table>`;
}

/** Shows the compared runs. */
export function Comparison() {
  if (!compared.value) return null;
  const { runs, series } = compared.value;
  const names = measuresOf(series);
  const wanted = chosen.value.filter((name) => names.includes(name));
  const drawn = wanted.length || !names.length ? wanted : [names[0]];
  const button = (/** @type {string} */ name) => {
    const on = drawn.includes(name);
    const turn = () => (chosen.value = on ? drawn.filter((n) => n !== name) : [...drawn, name]);
    return html`<button type="button" aria-pressed=${String(on)} onClick=${turn}>${metricName(name)}</button>`;
  };
  const lines = (/** @type {string} */ name) =>
    runs.map((r, i) => ({ name: r.name, colour: COLOURS[i], points: series[i][name] || [] }));
  return html`<div class="bar">
      <h2>Compared</h2>
      <div class="measures" role="group" aria-label="Metrics">${names.map(button)}</div>
      <span class="space" />
      <button class="back" onClick=${() => (compared.value = null)}>Back to one run</button>
    </div>
    <div class="plotted">${drawn.map((name) => html`<${Curves} key=${name} title=${metricName(name)} lines=${lines(name)} />`)}</div>
    <div class="panel differences"><h2>Settings that differ</h2><${Differences} compared=${compared.value} /></div>`;
}
