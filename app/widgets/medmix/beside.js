// Settings that are compared with those on screen. Their grid is cached, and fetched again only for other samples.
import { finder, offer, options } from '../../static/dom.js';
import { fetchGrid } from './grid.js';
import { label } from './presets.js';

/** @typedef {{strong: string, config: Values, weak_config: Values, title: string}} Kept */

const NOTHING = '';
const NOW = 'now';

export class Beside {
  /** @param {HTMLElement} root @param {{now: () => Omit<Kept, 'title'>, presets: import('./presets.js').Presets,
   * changed: () => void}} on */
  constructor(root, { now, presets, changed }) {
    this.select = finder(root)('.beside-choice');
    this.now = now;
    this.presets = presets;
    /** @type {Kept | null} */
    this.kept = null;
    /** @type {{asked: string, grid: import('./grid.js').Grid} | null} the latest grid of these settings */
    this.drawn = null;
    this.select.onchange = () => {
      this.#keep(this.select.value);
      changed();
    };
  }

  /** @param {string} choice */
  #keep(choice) {
    const preset = this.presets.list[Number(choice)];
    const settings = this.now();
    if (choice === NOTHING) this.kept = null;
    else if (choice === NOW) this.kept = { ...structuredClone(settings), title: 'copy' };
    else this.kept = { ...settings, strong: preset.strong, config: preset.config, title: label(preset) };
  }

  /** Fills the menu after the presets or the augmentation have changed; the compared settings stay. */
  fill() {
    const { select } = this;
    const was = select.value;
    const [nothing, now] = options([
      [NOTHING, 'nothing'],
      [NOW, 'a copy of these settings'],
    ]);
    offer(select, nothing, now, this.presets.options());
    if (!this.kept) select.value = NOTHING;
    else if (select.value !== was) select.value = NOW;
  }

  /** Returns the grid of the compared settings. @param {Values} scene on screen, for its samples, draws and side @param {AbortSignal} [signal] */
  async grid(scene, signal) {
    if (!this.kept) throw new Error('No settings are chosen to compare with.');
    const { title, ...settings } = this.kept;
    const wanted = { ...scene, ...settings };
    const asked = JSON.stringify(wanted);
    if (this.drawn?.asked !== asked) this.drawn = { asked, grid: await fetchGrid(wanted, signal) };
    return this.drawn.grid;
  }
}
