// Numbers next to the picture, before training: separability of classes, lesions in weak crops, distance to real ones.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { action, el, fill, matrix } from '../../static/dom.js';
import { fixed, percent, seconds, shareOf } from '../../static/format.js';
import { waited } from './waiting.js';

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
