// Measurements before training: work that takes a while, with the time left; the numbers next to the picture; and what
// the current detector would miss.
import { computed, signal, useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { api } from '../../static/api.js';
import { Chart } from '../../static/chart.js';
import { orToast } from '../../static/dialogs.js';
import { fill, matrix } from '../../static/dom.js';
import { fixed, percent, seconds, shareOf } from '../../static/format.js';
import { keep, kept } from '../../static/kept.js';
import { study } from '../../static/store.js';
import { button, html } from '../../static/view.js';
import { docked, scene, settings } from './scene.js';

const KEY = 'pmsacl.medmix.rates'; // milliseconds per unit of work, by kind
const UNSAID = 600; // milliseconds before the first message

/**
 * Does work; meanwhile says what it is, the time left, and has a button to stop it.
 * @template T
 * @param {import('@preact/signals').Signal<any>} said takes the message, as a view, and null at the end
 * @param {{kind: string, words: string, amount: number}} what amount: units of work; the rate is stored by kind
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T | null>} null if it was stopped
 */
export async function waited(said, { kind, words, amount }, work) {
  const control = new AbortController();
  const rate = kept(KEY, /** @type {Record<string, number>} */ ({}))[kind];
  const began = performance.now();
  const stop = button('Stop', () => control.abort(), { class: 'link' });
  const timer = setInterval(() => {
    const ms = rate && rate * amount - (performance.now() - began);
    const left = !ms ? '…' : ms > 0 ? `, about ${seconds(Math.ceil(ms / 1000))} left ` : ', longer than usual ';
    said.value = html`<span>${words}</span><span class="num">${left}</span>${stop}`;
  }, UNSAID);
  try {
    const answer = await work(control.signal);
    keep(KEY, { ...kept(KEY, {}), [kind]: (performance.now() - began) / amount });
    return answer;
  } catch (error) {
    if (control.signal.aborted) return null;
    throw error;
  } finally {
    clearInterval(timer);
    said.value = null;
  }
}

/** @param {Answers.Probe} r @returns {[string, string][]} */
function facts(r) {
  /** @type {[string, string][]} */
  const list = [
    ['Linear-probe accuracy, classes', `${shareOf(r.accuracy, r.images)}; chance ${percent(r.chance, 0)}`],
    ['Linear-probe accuracy, lesion or not', `${shareOf(r.lesion_accuracy, r.images)}; chance 50 %`],
  ];
  if (r.survival != null) list.push(['Share of a lesion that a weak crop keeps', percent(r.survival, 0)]);
  if (r.lost != null) list.push(['Weak views that lose most of the lesion', percent(r.lost, 0)]);
  if (!r.near) return [...list, ['Real lesions', `too few masks in ${r.study}`]];
  return [
    ...list,
    ['Real lesions', `${r.near.real} of ${r.study}`],
    ['Real lesions against normal', `AUROC ${fixed(r.near.auroc_real, 2)}`],
    ['Synthetic lesions by the same probe', `AUROC ${fixed(r.near.auroc_synthetic, 2)}`],
    ['Distance of synthetic to real (normal patches: 1)', fixed(r.near.distance, 1)],
  ];
}

/** The parts of the scene that affect the numbers: not the size of the picture or dropped images. */
const measurable = computed(() => {
  const { strong, config, seed, weak_config: weak } = scene.value;
  return JSON.stringify([study.value, strong, config, seed, weak]);
});
export const numbers = signal(/** @type {{probe: Answers.Probe, of: string} | null} */ (null)); // of: what was measured
export const measuring = signal(/** @type {any} */ (null)); // what is said while they are measured

export async function measure() {
  if (!study.value) throw new Error('The numbers need a study: choose or import one.');
  docked.value = 'numbers';
  numbers.value = null;
  measuring.value = 'Measuring these settings…';
  const of = measurable.value;
  const body = { scene: { ...scene.value, drop: '' }, encoder: 'latest' };
  const what = { kind: 'numbers', words: 'Measuring', amount: Number(settings.value.config.k || 3) + 1 };
  try {
    const probe = await waited(measuring, what, (signal) => api('/api/medmix/probe', body, { signal }));
    numbers.value = probe && { probe, of };
  } finally {
    if (!numbers.value && docked.value === 'numbers') docked.value = null;
  }
}

/** The numbers of the settings that were measured, marked as outdated when others are on screen. */
export function Numbers() {
  if (!numbers.value) return html`<p class="dim">${measuring}</p><progress />`;
  const { probe, of } = numbers.value;
  const through = probe.encoder === 'untrained' ? 'random weights' : probe.encoder;
  const isOld = of !== measurable.value;
  const again = button('Measure again', () => orToast(measure()), { class: 'link' });
  const confusion = matrix(probe.confusion, 'true, %', (v, sum) => fixed((100 * (v ?? 0)) / sum, 0));
  return html`<p class="dim">Encoder: ${through}; ${probe.images} images at ${probe.side} px, ${seconds(probe.seconds)}</p>
    ${isOld && html`<p class="warn">These numbers belong to earlier settings. ${again}</p>`}
    ${probe.words.map(({ kind, text }) => html`<p class=${kind}>${text}</p>`)}
    <div class="facts ${isOld ? 'old' : ''}">
      ${facts(probe).map(([name, value]) => html`<span class="dim">${name}</span><span class="num">${value}</span>`)}
    </div>
    <div class=${isOld ? 'old' : ''} ref=${(/** @type {Element | null} */ place) => place && fill(place, confusion)} />`;
}

/** A chart from zero, as a view. @param {{title: string, unit: string, high?: number, lines: Page.Line[]}} props */
export function Curves({ lines, ...options }) {
  const chart = useMemo(() => new Chart({ low: 0, ...options }), []);
  chart.put(lines);
  return html`<div ref=${(/** @type {Element | null} */ place) => place?.append(chart.element)} />`;
}

/** Lesions with the settings on screen, planted into held-out normals: a button for the measurement, then its curve. */
export function Missed() {
  const found = useSignal(/** @type {Answers.Missed | null} */ (null));
  const said = useSignal(/** @type {any} */ (null)); // null: nothing is being measured
  const plant = async () => {
    const body = { study: study.value, config: settings.value.config };
    const what = { kind: 'missed', words: 'Planting lesions', amount: 1 };
    said.value = '';
    const measured = await waited(said, what, (signal) => api('/api/medmix/missed', body, { signal }));
    found.value = measured || found.value;
  };
  const busy = said.value !== null;
  const start = (/** @type {string} */ text, look = '') =>
    !busy && button(text, () => orToast(plant()), { class: look });
  if (!found.value)
    return html`<p class="dim">
        ${busy ? said : 'Plants such lesions into held-out normals and counts those not flagged.'}
      </p>
      ${start('Measure')}`;
  const { name, planted } = found.value;
  const opacities = [...new Set(planted.map((row) => row.contrast))].sort((a, b) => b - a);
  const lines = opacities.map((opacity, i) => {
    const rows = planted.filter((row) => row.contrast === opacity);
    const points = rows.map((row) => /** @type {[number, number]} */ ([100 * row.size, 1 - row.flagged / row.images]));
    return { name: `opacity ${percent(opacity, 0)}`, dash: i > 0, points };
  });
  return html`${busy && html`<p class="dim">${said}</p>`}
    <${Curves} title="Share not flagged" high=${1} unit="size in %" lines=${lines} />
    <p class="dim">
      Share of lesions that “${name}” does not flag, by size in % of the side;
      ${` ${planted[0].images} images each.`}
    </p>
    ${start('Measure again', 'link')}`;
}
