// Presets: the list and its versions, saving under a name, YAML out and in.
import { api, fetched } from '../../static/api.js';
import { ask, confirm, orToast, toast } from '../../static/dialogs.js';
import { download, el, finder } from '../../static/dom.js';

/** @typedef {import('../../static/answers').Preset} Preset */

/** @param {{name: string, version: number}} preset */
export const label = ({ name, version }) => `${name}${version ? ` · v${version}` : ''}`;

/** Whether two settings are the same, in whatever order. @param {Values} a @param {Values} b */
export const same = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());

export class Presets {
  /** @param {HTMLElement} root @param {{now: () => {strong: string, config: Values}, filled: () => void, read: (strong:
   * string, config: Values) => void}} on now: what is on screen; filled: the list has changed; read: put these on
   * screen */
  constructor(root, { now, filled, read }) {
    this.$ = finder(root);
    this.now = now;
    this.filled = filled;
    this.read = read;
    /** @type {Preset[]} */
    this.list = [];
    this.lastName = 'my lesions';
    const { $ } = this;
    $('.save').onclick = () => orToast(this.save());
    $('.remove-preset').onclick = () => orToast(this.remove());
    $('.export').onclick = () => orToast(this.export());
    $('.import').onclick = () => $('.yaml').click();
    $('.yaml').onchange = () => orToast(this.import());
    $('.preset').onchange = () => {
      const chosen = this.current();
      if (chosen) read(now().strong, chosen.config);
      else this.show();
    };
  }

  async save() {
    const name = (await ask('Name of the preset', this.lastName, { maxlength: 60 }))?.trim();
    if (!name) return;
    const { preset } = await api('/api/medmix/presets', { name, ...this.now() });
    this.lastName = name;
    await this.load();
    this.fill();
    toast(`Saved as ${label(preset)}.`, 'good');
  }

  async remove() {
    const chosen = this.current();
    if (!chosen || !(await confirm(`Take “${chosen.name}” out of the list?`, 'Remove'))) return;
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
    toast(`Read “${preset.name}”. Save it to keep it.`, 'good');
  }

  async load() {
    ({ presets: this.list } = await api('/api/medmix/presets'));
  }

  /** @returns {Preset | undefined} */
  current() {
    return this.list[Number(this.$('.preset').value || -1)];
  }

  /** @param {string} name */
  named(name) {
    return this.list.find((p) => p.name === name) || this.list[0];
  }

  // Options for the augmentation that is looked at.
  options() {
    const { strong } = this.now();
    return this.list.flatMap((p, i) => (p.strong === strong ? [el('option', { value: String(i) }, label(p))] : []));
  }

  fill() {
    const options = this.options();
    const none = el('option', { value: '' }, options.length ? 'changed by hand' : 'none saved');
    this.$('.preset').replaceChildren(none, ...options);
    this.filled();
    this.show();
  }

  show() {
    const { strong, config } = this.now();
    const i = this.list.findIndex((p) => p.strong === strong && same(p.config, config));
    this.$('.preset').value = i < 0 ? '' : String(i);
    this.$('.remove-preset').disabled = i < 0 || this.list[i].built_in;
  }
}
