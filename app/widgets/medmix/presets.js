// Presets: the list and its versions, saving by name, YAML export and import.
import { api, fetched } from '../../static/api.js';
import { ask, confirm, orToast, toast } from '../../static/dialogs.js';
import { action, closing, download, el, fill, finder } from '../../static/dom.js';
import { fetchGrid } from './grid.js';
import { patchOf } from './outline.js';

/** @typedef {import('../../static/answers').Preset} Preset */

const SIDE = 256; // pixels of a preset's picture

/** @param {{name: string, version: number}} preset */
export const label = ({ name, version }) => `${name}${version ? ` · v${version}` : ''}`;

/** Returns whether two settings are equal, in any order. @param {Values} a @param {Values} b */
export const same = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());

export class Presets {
  /** @param {HTMLElement} root @param {{now: () => {strong: string, config: Values}, filled: () => void, read: (strong:
   * string, config: Values) => void, scene: () => Values}} on now: the settings on screen; filled: called after the list changed; read: put these on
   * screen */
  constructor(root, { now, filled, read, scene }) {
    this.$ = finder(root);
    this.now = now;
    this.filled = filled;
    this.read = read;
    this.scene = scene;
    /** @type {Preset[]} */
    this.list = [];
    this.lastName = 'my lesions';
    const { $ } = this;
    $('.save').onclick = () => orToast(this.save());
    $('.remove-preset').onclick = () => orToast(this.remove());
    $('.export').onclick = () => orToast(this.export());
    $('.import').onclick = () => $('.yaml').click();
    $('.yaml').onchange = () => orToast(this.import());
    this.at = -1; // index in the list of the preset on screen
    closing($('.presets'));
    $('.presets').ontoggle = () => orToast(this.#picture());
  }

  /** @param {string} [note] where the settings come from */
  async save(note) {
    const name = (await ask('Name of the preset', this.lastName, { maxlength: 60 }))?.trim();
    if (!name) return;
    const { preset } = await api('/api/medmix/presets', { name, note, ...this.now() });
    this.lastName = name;
    await this.load();
    this.fill();
    toast(`Saved as ${label(preset)}.`, 'good');
  }

  async remove() {
    const chosen = this.current();
    if (!chosen || !(await confirm(`Remove “${chosen.name}” from the list?`, 'Remove'))) return;
    await api(`/api/medmix/presets/${encodeURIComponent(chosen.name)}`, undefined, { method: 'DELETE' });
    await this.load();
    this.fill();
  }

  async export() {
    const { name, version } = this.current() || { name: this.lastName, version: 0 };
    const answer = await fetched('/api/medmix/presets.yaml', { name, version, ...this.now() });
    download(await answer.blob(), `${name.replace(/\W+/g, '-')}.yaml`);
  }

  async import() {
    const [file] = this.$('.yaml').files;
    if (!file) return;
    const { preset } = await api('/api/medmix/presets/read', { text: await file.text() });
    this.$('.yaml').value = '';
    this.lastName = preset.name;
    this.read(preset.strong, preset.config);
    toast(`“${preset.name}” loaded. Save it to keep it.`, 'good');
  }

  async load() {
    ({ presets: this.list } = await api('/api/medmix/presets'));
  }

  /** @returns {Preset | undefined} */
  current() {
    return this.list[this.at];
  }

  /** @param {string} name */
  named(name) {
    return this.list.find((p) => p.name === name) || this.list[0];
  }

  // Options for the augmentation on screen.
  options() {
    const { strong } = this.now();
    return this.list.flatMap((p, i) => (p.strong === strong ? [el('option', { value: String(i) }, label(p))] : []));
  }

  fill() {
    const { strong } = this.now();
    const choose = (/** @type {Preset} */ p) => () => {
      this.$('.presets').open = false;
      this.read(strong, p.config);
    };
    const card = (/** @type {Preset} */ p) => {
      const words = el('span', {}, el('b', {}, label(p)), el('small', { class: 'dim' }, p.note || 'Saved preset'));
      const picture = el('canvas', { width: SIDE, height: SIDE });
      return action([picture, words], choose(p), { class: 'item', 'data-name': label(p) });
    };
    fill(this.$('.presets .cards'), this.list.filter((p) => p.strong === strong).map(card));
    this.filled();
    this.show();
  }

  /** Draws the largest lesion of each preset on an image of the scene, when the list is opened. */
  async #picture() {
    for (const p of this.list) {
      if (!this.$('.presets').open) return;
      const canvas = this.$(`.presets [data-name="${CSS.escape(label(p))}"] canvas`);
      if (!canvas) continue;
      const scene = { ...this.scene(), config: p.config, size: SIDE, samples: 1, weak: false };
      const drawn = JSON.stringify(scene);
      if (canvas.dataset.scene === drawn) continue;
      const { mosaic, outlines } = await fetchGrid(scene);
      const lesions = outlines.flatMap((row, n) => row[0].map((line) => ({ n, ...patchOf(line, SIDE, SIDE, 1.8) })));
      const whole = { n: 0, x: 0, y: 0, side: SIDE };
      const { n, x, y, side } = lesions.reduce((a, b) => (b.side > a.side ? b : a), lesions[0] || whole);
      canvas.getContext('2d')?.drawImage(mosaic, x, n * SIDE + y, side, side, 0, 0, SIDE, SIDE);
      canvas.dataset.scene = drawn;
    }
  }

  show() {
    const { strong, config } = this.now();
    this.at = this.list.findIndex((p) => p.strong === strong && same(p.config, config));
    const chosen = this.current();
    this.$('.presets summary').textContent = chosen
      ? label(chosen)
      : config.matched?.length
        ? 'matched, not saved'
        : 'changed by hand';
    this.$('.remove-preset').disabled = !chosen || chosen.built_in;
  }
}
