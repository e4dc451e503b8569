// Presets: the list and its versions, saving by name, YAML export and import; and the settings that those on screen are
// compared with.
import { api, fetched } from '../../static/api.js';
import { ask, confirm, orToast, toast } from '../../static/dialogs.js';
import { action, closing, download, el, fill, finder, offer, options } from '../../static/dom.js';
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
  constructor(root, on) {
    this.$ = finder(root);
    this.on = on;
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
    const { preset } = await api('/api/medmix/presets', { name, note, ...this.on.now() });
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
    const answer = await fetched('/api/medmix/presets.yaml', { name, version, ...this.on.now() });
    download(await answer.blob(), `${name.replace(/\W+/g, '-')}.yaml`);
  }

  async import() {
    const [file] = this.$('.yaml').files;
    if (!file) return;
    const { preset } = await api('/api/medmix/presets/read', { text: await file.text() });
    this.$('.yaml').value = '';
    this.lastName = preset.name;
    this.on.read(preset.strong, preset.config);
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
    const { strong } = this.on.now();
    return this.list.flatMap((p, i) => (p.strong === strong ? [el('option', { value: String(i) }, label(p))] : []));
  }

  fill() {
    const { strong } = this.on.now();
    const choose = (/** @type {Preset} */ p) => () => {
      this.$('.presets').open = false;
      this.on.read(strong, p.config);
    };
    const card = (/** @type {Preset} */ p) => {
      const words = el('span', {}, el('b', {}, label(p)), el('small', { class: 'dim' }, p.note || 'Saved preset'));
      const picture = el('canvas', { width: SIDE, height: SIDE });
      return action([picture, words], choose(p), { class: 'item', 'data-name': label(p) });
    };
    fill(this.$('.presets .cards'), this.list.filter((p) => p.strong === strong).map(card));
    this.on.filled();
    this.show();
  }

  /** Draws the largest lesion of each preset on an image of the scene, when the list is opened. */
  async #picture() {
    for (const p of this.list) {
      if (!this.$('.presets').open) return;
      const canvas = this.$(`.presets [data-name="${CSS.escape(label(p))}"] canvas`);
      if (!canvas) continue;
      const scene = { ...this.on.scene(), config: p.config, size: SIDE, samples: 1, weak: false };
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
    const { strong, config } = this.on.now();
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

/** @typedef {{strong: string, config: Values, weak_config: Values}} Settings */

const NOTHING = '';
const NOW = 'now';

/** Settings that are compared with those on screen. Their grid is cached, and fetched again only for other samples. */
export class Beside {
  /** @param {HTMLElement} root @param {Presets} presets @param {() => Settings} now those on screen @param {() => void}
   * changed */
  constructor(root, presets, now, changed) {
    this.select = finder(root)('.beside-choice');
    this.presets = presets;
    /** @type {(Settings & {title: string}) | null} */
    this.kept = null;
    /** @type {{asked: string, grid: import('./grid.js').Grid} | null} the latest grid of these settings */
    this.drawn = null;
    this.select.onchange = () => {
      const choice = this.select.value;
      const preset = presets.list[Number(choice)];
      if (choice === NOTHING) this.kept = null;
      else if (choice === NOW) this.kept = { ...structuredClone(now()), title: 'copy' };
      else this.kept = { ...now(), strong: preset.strong, config: preset.config, title: label(preset) };
      changed();
    };
  }

  /** Fills the menu after the presets or the augmentation have changed; the compared settings stay. */
  fill() {
    const { select } = this;
    const was = select.value;
    const first = options(Object.entries({ [NOTHING]: 'nothing', [NOW]: 'a copy of these settings' }));
    offer(select, first, this.presets.options());
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
