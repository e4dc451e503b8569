// Forms made from descriptions by core/studio: groups of sliders, ranges, choices, each with its help.
import { signal, useComputed, useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { CONTROLS } from './fields.js';
import { html, show } from './view.js';

let serial = 0;

/** Finds the setting that a sentence mentions, the longest name first. @param {string[]} keys @param {string} sentence */
export const mentioned = (keys, sentence) =>
  [...keys].sort((a, b) => b.length - a.length).find((key) => new RegExp(`(^|[^\\w])${key}([^\\w]|$)`).test(sentence));

/** The values of a form, and what is wrong with them; `Fields` shows both. */
export class Form {
  id = `f${(serial += 1)}`;
  /** @type {import('@preact/signals').Signal<{key: string, sentence: string} | null>} what to say at a field */
  wrong = signal(null);

  /** @param {Answers.Group[]} groups @param {Values} values @param {(key: string, value: any) => void} changed called
   * for every manual change @param {{open?: number, prefix?: string, matters?: (key: string) => boolean}} [options]
   * open: how many groups are unfolded; matters: whether a field has an effect, otherwise it is hidden */
  constructor(groups, values, changed, { open = 1, prefix = '', matters = () => true } = {}) {
    this.groups = groups;
    this.values = signal(values);
    this.changed = changed;
    this.open = open;
    this.prefix = prefix;
    this.matters = matters;
  }

  /** Shows values without calling `changed`. @param {Values} values */
  set(values) {
    this.values.value = { ...this.values.peek(), ...values };
  }

  get() {
    return structuredClone(this.values.peek());
  }

  /** Shows a sentence at the field that it mentions; returns whether one was found. @param {string | null} sentence */
  complain(sentence) {
    const keys = this.groups.flatMap(({ fields }) => fields.map((f) => f.key));
    const key = sentence && mentioned(keys, sentence);
    this.wrong.value = key ? { key, sentence } : null;
    return !sentence || Boolean(key);
  }

  /** The form as an element, for a page that is no view. */
  get element() {
    const place = document.createElement('div');
    show(place, Fields, { form: this });
    return place;
  }
}

/** @param {{form: Form, f: Answers.Field}} props */
function Field({ form, f }) {
  const { key, kind, label, help } = f;
  const id = `${form.id}-${key}`;
  const value = useComputed(() => form.values.value[key]);
  const wrong = useComputed(() => (form.wrong.value?.key === key ? form.wrong.value.sentence : ''));
  const hidden = useComputed(() => !wrong.value && !form.matters(key));
  const { inline, beside, body } = CONTROLS[kind](f, id, value.value, (to) => {
    form.set({ [key]: to });
    form.changed(key, to);
  });
  return html`<div class="field ${kind} ${wrong.value && 'wrong'}" data-key=${form.prefix + key} title=${help || null}
    hidden=${hidden.value}>
    ${
      inline
        ? html`<label class="line" for=${id}>${inline}<span>${label}</span></label>`
        : html`<div class="line"><label for=${id}>${label}</label>${beside}</div>`
    }
    ${body}${help && html`<p class="help">${help}</p>`}
    <p class="error" role="alert">${wrong.value}</p>
  </div>`;
}

/** @param {{form: Form, group: Answers.Group, open: boolean}} props */
function Group({ form, group: { title, fields }, open }) {
  const place = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  useSignalEffect(() => {
    const wrong = form.wrong.value?.key;
    if (place.current && fields.some(({ key }) => key === wrong)) place.current.open = true;
  });
  return html`<details class="group" open=${open} ref=${place}>
    <summary>${title}</summary>${fields.map((f) => html`<${Field} key=${f.key} form=${form} f=${f} />`)}
  </details>`;
}

/** @param {{form: Form}} props */
export const Fields = ({ form }) => html`<div class="form">
  ${form.groups.map((group, i) => html`<${Group} form=${form} group=${group} open=${i < form.open} />`)}
</div>`;
