// Forms made from what core/studio/forms.py says: groups of sliders, ranges, choices, each with its help.
const { el } = window.Studio;

const tidy = (v) => (Math.abs(v) >= 100 || Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(4))));
let serial = 0;

export class Form {
  // groups: [{title, fields}]; values: {key: value}; changed(key, value) is called for every change by hand.
  constructor(groups, values, changed, { open = 1, prefix = '' } = {}) {
    this.controls = {};
    this.values = {};
    this.changed = changed;
    this.prefix = prefix;
    this.element = el('div', { class: 'form' }, groups.map((group, i) =>
      el('details', { open: i < open, class: 'group' }, el('summary', {}, group.title), group.fields.map((f) => this.#row(f)))));
    this.set(values);
  }

  // Puts values into the controls without calling `changed`.
  set(values) {
    for (const [key, value] of Object.entries(values)) {
      this.values[key] = value;
      this.controls[key]?.put(value);
    }
  }
  get() {
    return structuredClone(this.values);
  }
  // Shows a sentence beside the field whose name it begins with or mentions; returns whether one was found.
  complain(sentence) {
    for (const c of Object.values(this.controls)) {
      c.error.textContent = '';
      c.row.classList.remove('wrong');
    }
    if (!sentence) return true;
    const keys = Object.keys(this.controls).sort((a, b) => b.length - a.length);
    const key = keys.find((k) => new RegExp(`(^|[^\\w])${k}([^\\w]|$)`).test(sentence));
    if (!key) return false;
    const c = this.controls[key];
    c.error.textContent = sentence;
    c.row.classList.add('wrong');
    c.row.closest('details').open = true;
    return true;
  }

  #row(f) {
    const id = `f${(serial += 1)}-${f.key}`;
    const told = (value) => { this.values[f.key] = value; this.changed?.(f.key, value); };
    const made = this[`_${f.kind}`](f, id, told);
    const error = el('p', { class: 'error', role: 'alert' });
    const head = made.inline
      ? el('label', { class: 'line', for: id }, made.inline, el('span', {}, f.label))
      : el('div', { class: 'line' }, el('label', { for: id }, f.label), made.beside);
    const row = el('div', { class: `field ${f.kind}`, 'data-key': this.prefix + f.key, title: f.help || null }, head, made.body, f.help ? el('p', { class: 'help' }, f.help) : null, error);
    this.controls[f.key] = { put: made.put, row, error };
    return row;
  }

  _number(f, id, told) {
    const whole = f.kind === 'integer';
    const box = el('input', { type: 'number', id, step: f.log ? 'any' : f.step, min: f.min, max: f.max });
    if (f.min == null || (whole && f.max - f.min > 1000)) {
      box.onchange = () => told(Number(box.value));
      return { beside: box, put: (v) => { box.value = v; } };
    }
    const to = f.log ? (v) => Math.log10(Math.max(v, f.min)) : (v) => v;
    const from = f.log ? (v) => Number((10 ** v).toPrecision(3)) : (v) => v;
    const bar = el('input', { type: 'range', min: to(f.min), max: to(f.max), step: f.log ? 0.01 : f.step, 'aria-label': f.label });
    const read = (v) => (whole ? Math.round(v) : Number(v.toPrecision(6)));
    bar.oninput = () => { const v = read(from(Number(bar.value))); box.value = tidy(v); told(v); };
    box.onchange = () => { const v = read(Number(box.value)); bar.value = to(v); told(v); };
    return { beside: box, body: bar, put: (v) => { box.value = tidy(v); bar.value = to(v); } };
  }
  _integer(f, id, told) {
    return this._number(f, id, told);
  }
  _range(f, id, told) {
    const bars = ['lowest', 'highest'].map((name, i) => el('input', { type: 'range', id: i ? `${id}-high` : id, min: f.min, max: f.max, step: f.step, 'aria-label': `${f.label}, ${name}` }));
    const said = el('output', { class: 'num' });
    const track = el('div', { class: 'two' }, el('i'), bars);
    const show = (low, high) => {
      said.textContent = `${tidy(low)} – ${tidy(high)}`;
      const part = (v) => (100 * (v - f.min)) / (f.max - f.min);
      track.style.setProperty('--low', `${part(low)}%`);
      track.style.setProperty('--high', `${part(high)}%`);
      bars[0].style.zIndex = low > (f.min + f.max) / 2 ? 2 : 1;
    };
    bars.forEach((bar, i) => {
      bar.oninput = () => {
        let [low, high] = bars.map((b) => Number(b.value));
        if (low > high) { if (i) low = high; else high = low; bars[0].value = low; bars[1].value = high; }
        show(low, high);
        told([low, high]);
      };
    });
    return { beside: said, body: track, put: ([low, high]) => { bars[0].value = low; bars[1].value = high; show(low, high); } };
  }
  _choice(f, id, told) {
    const select = el('select', { id }, f.options.map((o) => el('option', { value: o }, o)));
    select.onchange = () => told(select.value);
    return { beside: select, put: (v) => {
      if (![...select.options].some((o) => o.value === v)) select.append(el('option', { value: v }, v));
      select.value = v;
    } };
  }
  // The studies there are, asked for again whenever the list is about to be opened.
  _study(f, id, told) {
    const select = el('select', { id }, el('option', { value: '' }, 'none'));
    const fill = async () => {
      const { studies } = await window.Studio.api('/api/medmix/donors');
      const now = select.value;
      const known = studies.some((s) => s.id === now) || !now ? studies : [...studies, { id: now, name: now }];
      select.replaceChildren(el('option', { value: '' }, 'none'), ...known.map((s) => el('option', { value: s.id }, s.name)));
      select.value = now;
    };
    select.onpointerdown = select.onfocus = () => fill().catch(() => {});
    fill().catch(() => {});
    select.onchange = () => told(select.value);
    return { beside: select, put: (v) => {
      if (![...select.options].some((o) => o.value === v)) select.append(el('option', { value: v }, v));
      select.value = v;
    } };
  }
  _several(f, id, told) {
    const buttons = f.options.map((o, i) => el('button', { type: 'button', id: i ? null : id, 'aria-pressed': 'false', 'data-option': o }, f.names?.[o] || o));
    const on = () => buttons.filter((b) => b.getAttribute('aria-pressed') === 'true').map((b) => b.dataset.option);
    for (const button of buttons) {
      button.onclick = (event) => {
        const was = button.getAttribute('aria-pressed') === 'true';
        // A click chooses one; with Shift or Ctrl it adds to or takes from those chosen.
        if (event.shiftKey || event.ctrlKey || event.metaKey) {
          if (was && on().length === 1) return;
          button.setAttribute('aria-pressed', String(!was));
        } else buttons.forEach((b) => b.setAttribute('aria-pressed', String(b === button)));
        told(on().join('+'));
      };
    }
    return { body: el('div', { class: 'several', role: 'group', 'aria-label': f.label, title: 'Shift-click to take several' }, buttons), put: (v) => {
      const chosen = v === 'mixed' ? f.options : v.split('+');
      buttons.forEach((b) => b.setAttribute('aria-pressed', String(chosen.includes(b.dataset.option))));
    } };
  }
  _flag(f, id, told) {
    const box = el('input', { type: 'checkbox', id });
    box.onchange = () => told(box.checked);
    return { inline: box, put: (v) => { box.checked = v; } };
  }
  _numbers(f, id, told) {
    const boxes = f.names.map((name, i) => el('input', { type: 'number', id: i ? null : id, min: f.min, max: f.max, step: f.step || 'any', 'aria-label': `${f.label}, ${name}` }));
    boxes.forEach((b) => { b.onchange = () => told(boxes.map((x) => Number(x.value))); });
    return { body: el('div', { class: 'numbers' }, boxes.map((b, i) => el('label', {}, f.names[i], b))), put: (v) => v.forEach((x, i) => { boxes[i].value = tidy(x); }) };
  }
  _text(f, id, told) {
    const box = el('input', { type: 'text', id });
    let several = false;
    box.onchange = () => told(several ? box.value.split(',').map((t) => t.trim()).filter(Boolean) : box.value);
    return { beside: box, put: (v) => { several = Array.isArray(v); box.value = several ? v.join(', ') : v ?? ''; } };
  }
}
