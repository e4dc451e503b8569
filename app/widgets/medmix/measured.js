// Measurements before training: work that takes a while, with the time left; the numbers next to the picture; and what
// the current detector would miss.
import { useRef, useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { Chart } from '../../static/chart.js';
import { orToast } from '../../static/dialogs.js';
import { action, el, fill, matrix } from '../../static/dom.js';
import { fixed, percent, seconds, shareOf } from '../../static/format.js';
import { keep, kept } from '../../static/kept.js';
import { button, html } from '../../static/view.js';

const KEY = 'pmsacl.medmix.rates'; // milliseconds per unit of work, by kind
const UNSAID = 600; // milliseconds before the first message

/**
 * Does work; meanwhile shows what it is, the time left, and a button to stop it.
 * @template T
 * @param {HTMLElement} place for the message
 * @param {{kind: string, words: string, amount: number}} what amount: units of work; the rate is stored by kind
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T | null>} null if it was stopped
 */
export async function waited(place, { kind, words, amount }, work) {
  const control = new AbortController();
  const rate = kept(KEY, /** @type {Record<string, number>} */ ({}))[kind];
  const began = performance.now();
  const left = el('span', { class: 'num' });
  const stop = action('Stop', () => control.abort(), { class: 'link' });
  const say = () => {
    const ms = rate && rate * amount - (performance.now() - began);
    left.textContent = !ms ? '…' : ms > 0 ? `, about ${seconds(Math.ceil(ms / 1000))} left ` : ', longer than usual ';
    if (!stop.isConnected) fill(place, el('span', {}, words), left, stop);
  };
  const timer = setInterval(say, UNSAID);
  try {
    const answer = await work(control.signal);
    keep(KEY, { ...kept(KEY, {}), [kind]: (performance.now() - began) / amount });
    return answer;
  } catch (error) {
    if (control.signal.aborted) return null;
    throw error;
  } finally {
    clearInterval(timer);
  }
}

/** @typedef {import('../../static/answers').Probe} Probe */

/** @param {Probe} r @returns {[string, string][]} */
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

/** Returns the parts of a scene that affect the numbers: not the size of the picture or dropped images. @param {any} scene */
const measuredOf = ({ study, strong, config, seed, weak_config }) =>
  JSON.stringify([study, strong, config, seed, weak_config]);

export class Numbers {
  /** @param {HTMLElement} panel @param {HTMLButtonElement} button requests them
   * @param {() => any} scene on screen; throws an Error if it cannot be measured */
  constructor(panel, button, scene) {
    this.panel = panel;
    this.button = button;
    this.scene = scene;
    this.of = ''; // what was measured
    button.onclick = () => orToast(this.measure());
  }

  async measure() {
    const { panel, button } = this;
    const scene = { ...this.scene(), drop: '' };
    panel.hidden = false;
    delete panel.dataset.done;
    const place = el('p', { class: 'dim' }, 'Measuring these settings…');
    fill(panel, place, el('progress'));
    button.disabled = true;
    this.of = measuredOf(scene);
    const what = { kind: 'numbers', words: 'Measuring', amount: Number(scene.config.k || 3) + 1 };
    try {
      const body = { scene, encoder: 'latest' };
      const r = await waited(place, what, (signal) => api('/api/medmix/probe', body, { signal }));
      if (r) this.show(r);
      else panel.hidden = true;
    } catch (error) {
      panel.hidden = true;
      throw error;
    } finally {
      button.disabled = false;
    }
  }

  /** Marks the numbers as outdated if another scene is on screen. @param {unknown} scene */
  follow(scene) {
    this.panel.toggleAttribute('data-stale', measuredOf(scene) !== this.of);
  }

  /** @param {Probe} r */
  show(r) {
    const { panel } = this;
    const close = () => {
      panel.hidden = true;
    };
    const through = r.encoder === 'untrained' ? 'random weights' : r.encoder;
    fill(
      panel,
      el('div', { class: 'top' }, el('h2', {}, 'Before training'), action('✕', close, { 'aria-label': 'Close' })),
      el('p', { class: 'dim' }, `Encoder: ${through}; ${r.images} images at ${r.side} px, ${seconds(r.seconds)}`),
      el(
        'p',
        { class: 'warn old' },
        'These numbers belong to earlier settings. ',
        action('Measure again', () => this.button.click(), { class: 'link' }),
      ),
      r.words.map((w) => el('p', { class: w.kind }, w.text)),
      el(
        'div',
        { class: 'facts' },
        facts(r).map(([name, value]) => [el('span', { class: 'dim' }, name), el('span', { class: 'num' }, value)]),
      ),
      matrix(r.confusion, 'true, %', (v, sum) => fixed((100 * (v ?? 0)) / sum, 0)),
    );
    panel.dataset.done = 'yes';
    this.follow({ ...this.scene(), drop: '' });
  }
}

/** Lesions with the settings on screen, planted into held-out normals: a button for the measurement, then its curve.
 * @param {{scene: () => {study: string | null, config: Values}}} props */
export function Missed({ scene }) {
  const [found, setFound] = useState(/** @type {Answers.Missed | null} */ (null));
  const [busy, setBusy] = useState(false);
  const words = useRef(/** @type {any} */ (null));
  const chart = useRef(/** @type {Chart | null} */ (null));
  const measure = async () => {
    const body = scene();
    const what = { kind: 'missed', words: 'Planting lesions', amount: 1 };
    setBusy(true);
    try {
      const measured = await waited(words.current, what, (signal) => api('/api/medmix/missed', body, { signal }));
      if (measured) setFound(measured);
    } finally {
      setBusy(false);
    }
  };
  const start = (/** @type {string} */ text, look = '') =>
    button(text, () => orToast(measure()), { class: look, hidden: busy });
  const place = html`<p class="dim" ref=${words} hidden=${!busy} />`;
  if (!found)
    return html`${place}
      <p class="dim" hidden=${busy}>Plants such lesions into held-out normals and counts those not flagged.</p>
      ${start('Measure')}`;
  const opacities = [...new Set(found.planted.map((row) => row.contrast))].sort((a, b) => b - a);
  const lines = opacities.map((opacity, i) => {
    const rows = found.planted.filter((row) => row.contrast === opacity);
    const points = rows.map((row) => /** @type {[number, number]} */ ([100 * row.size, 1 - row.flagged / row.images]));
    return { name: `opacity ${percent(opacity, 0)}`, dash: i > 0, points };
  });
  const draw = (/** @type {Element | null} */ box) => {
    chart.current ||= new Chart({ title: 'Share not flagged', low: 0, high: 1, unit: 'size in %' });
    box?.append(chart.current.element);
    chart.current.put(lines);
  };
  return html`${place}<div ref=${draw} />
    <p class="dim">
      Share of lesions that “${found.name}” does not flag, by size in % of the side;
      ${` ${found.planted[0].images} images each.`}
    </p>
    ${start('Measure again', 'link')}`;
}
