// Presets: the list and its versions, saving under a name, YAML out and in.
const { el, api, toast } = window.Studio;

export const label = (p) => `${p.name}${p.version ? ` · v${p.version}` : ''}`;
const same = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
const tell = (promise) => promise.catch((e) => toast(e.message, 'bad'));

export function hand(blob, name) {
  const link = el('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function ask(text, value) {
  return new Promise((resolve) => {
    const box = el('input', { type: 'text', value, maxlength: 60, 'aria-label': text });
    const dialog = el('dialog', { class: 'ask' });
    const done = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    dialog.append(el('form', { onsubmit: (e) => { e.preventDefault(); done(box.value.trim()); } }, el('label', {}, text, box),
      el('menu', {}, el('button', { type: 'button', onclick: () => done('') }, 'Cancel'), el('button', { class: 'main' }, 'Save'))));
    dialog.addEventListener('cancel', () => done(''));
    document.body.append(dialog);
    dialog.showModal();
    box.select();
  });
}

export class Presets {
  // now(): {strong, config} on screen; filled(): the list has changed; read(strong, config): put these on screen.
  constructor(root, { now, filled, read }) {
    Object.assign(this, { $: (selector) => root.querySelector(selector), now, filled, list: [] });
    let lastName = 'my lesions';
    this.$('.save').onclick = () => tell((async () => {
      const name = await ask('Name of the preset', lastName);
      if (!name) return;
      const { preset } = await api('/api/medmix/presets', { name, ...now() });
      lastName = name;
      await this.load();
      this.fill();
      toast(`Saved as ${label(preset)}.`, 'good');
    })());
    this.$('.remove-preset').onclick = () => tell((async () => {
      const p = this.current();
      if (!p || !(await window.Studio.confirm(`Take “${p.name}” out of the list?`, 'Remove'))) return;
      await api(`/api/medmix/presets/${encodeURIComponent(p.name)}`, undefined, { method: 'DELETE' });
      await this.load();
      this.fill();
    })());
    this.$('.export').onclick = () => tell((async () => {
      const p = this.current();
      const answer = await fetch('/api/medmix/presets.yaml', { method: 'POST', headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ name: p ? p.name : lastName, version: p ? p.version : 0, ...now() }) });
      if (!answer.ok) throw new Error((await answer.json()).error);
      hand(await answer.blob(), `${(p ? p.name : lastName).replace(/\W+/g, '-')}.yaml`);
    })());
    this.$('.import').onclick = () => this.$('.yaml').click();
    this.$('.yaml').onchange = (event) => tell((async () => {
      const [file] = event.target.files;
      if (!file) return;
      const { preset } = await api('/api/medmix/presets/read', { text: await file.text() });
      event.target.value = '';
      lastName = preset.name;
      read(preset.strong, preset.config);
      toast(`Read “${preset.name}”. Save it to keep it.`, 'good');
    })());
    this.$('.preset').onchange = (event) => {
      if (event.target.value === '') return this.show();
      read(now().strong, this.list[Number(event.target.value)].config);
    };
  }

  async load() {
    ({ presets: this.list } = await api('/api/medmix/presets'));
  }

  current() {
    return this.list[Number(this.$('.preset').value || -1)];
  }

  named(name) {
    return this.list.find((p) => p.name === name) || this.list[0];
  }

  // Options for the augmentation that is looked at.
  fill() {
    const { strong } = this.now();
    const mine = this.list.map((p, i) => [p, i]).filter(([p]) => p.strong === strong);
    this.options = () => mine.map(([p, i]) => el('option', { value: String(i) }, label(p)));
    this.$('.preset').replaceChildren(el('option', { value: '' }, mine.length ? 'changed by hand' : 'none saved'), ...this.options());
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
