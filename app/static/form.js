// Forms made from descriptions by core/studio: groups of sliders, ranges, choices, each with its help.
import { el } from './dom.js';
import { CONTROLS } from './fields.js';
import { dom } from './view.js';

let serial = 0;

/** Finds the setting that a sentence mentions, the longest name first. @param {string[]} keys @param {string} sentence */
export const mentioned = (keys, sentence) =>
  [...keys].sort((a, b) => b.length - a.length).find((key) => new RegExp(`(^|[^\\w])${key}([^\\w]|$)`).test(sentence));

export class Form {
  /** @param {Answers.Group[]} groups @param {Values} values @param {(key: string, value: any) => void}
   * changed called for every manual change @param {{open?: number, prefix?: string}} [options] open: how many groups
   * are unfolded */
  constructor(groups, values, changed, { open = 1, prefix = '' } = {}) {
    /** @type {Record<string, {put: (value: any) => void, row: HTMLElement, error: HTMLElement, group: HTMLDetailsElement}>} */
    this.controls = {};
    /** @type {Values} */
    this.values = {};
    this.changed = changed;
    this.prefix = prefix;
    const folded = (/** @type {Answers.Group} */ { title, fields }, /** @type {number} */ i) => {
      const group = el('details', { open: i < open, class: 'group' }, el('summary', {}, title));
      group.append(...fields.map((f) => this.#row(f, group)));
      return group;
    };
    this.element = el('div', { class: 'form' }, groups.map(folded));
    this.set(values);
  }

  /** Sets the controls' values without calling `changed`. @param {Values} values */
  set(values) {
    for (const [key, value] of Object.entries(values)) {
      this.values[key] = value;
      this.controls[key]?.put(value);
    }
  }

  get() {
    return structuredClone(this.values);
  }

  /** Shows a sentence at the field that it mentions; returns whether one was found. @param {string | null} sentence */
  complain(sentence) {
    for (const c of Object.values(this.controls)) {
      c.error.textContent = '';
      c.row.classList.remove('wrong');
    }
    if (!sentence) return true;
    const key = mentioned(Object.keys(this.controls), sentence);
    if (!key) return false;
    const c = this.controls[key];
    c.error.textContent = sentence;
    c.row.classList.add('wrong');
    c.row.hidden = c.group.hidden = false;
    c.group.open = true;
    return true;
  }

  /** Hides the fields that have no effect with these values, and groups without any other.
   * @param {Record<string, (values: Values) => boolean>} when by key @param {Values} values */
  only(when, values) {
    for (const [key, matters] of Object.entries(when)) {
      const control = this.controls[key];
      if (control) control.row.hidden = !matters(values);
    }
    for (const { group } of Object.values(this.controls))
      group.hidden = [...group.querySelectorAll('.field')].every((row) => row instanceof HTMLElement && row.hidden);
  }

  /** @param {Answers.Field} f @param {HTMLDetailsElement} group */
  #row(f, group) {
    const id = `f${(serial += 1)}-${f.key}`;
    const { put, inline, beside, body } = CONTROLS[f.kind](f, id, (value) => {
      this.values[f.key] = value;
      this.changed(f.key, value);
    });
    const error = el('p', { class: 'error', role: 'alert' });
    const head = inline
      ? dom`<label class="line" for=${id}>${inline}<span>${f.label}</span></label>`
      : dom`<div class="line"><label for=${id}>${f.label}</label>${beside}</div>`;
    const look = { class: `field ${f.kind}`, 'data-key': this.prefix + f.key, title: f.help || null };
    const row = el('div', look, head, body, f.help ? el('p', { class: 'help' }, f.help) : null, error);
    this.controls[f.key] = { put, row, error, group };
    return row;
  }
}
