// Small things that the Training tab's parts share.
const { el } = window.Studio;

export const percent = (v) => `${(100 * v).toFixed(v > 0.995 || v < 0.1 ? 1 : 0)} %`;

// Asks for a text (long: several lines). Resolves to it, or null when it was given up.
export function ask(text, value = '', { long = false, yes = 'Save' } = {}) {
  return new Promise((resolve) => {
    const box = long ? el('textarea', { rows: 4, 'aria-label': text }) : el('input', { type: 'text', 'aria-label': text });
    box.value = value;
    const dialog = el('dialog', { class: 'ask' });
    const done = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    dialog.append(el('form', { onsubmit: (e) => { e.preventDefault(); done(box.value); } }, el('label', {}, text, box),
      el('menu', {}, el('button', { type: 'button', onclick: () => done(null) }, 'Cancel'), el('button', { class: 'main' }, yes))));
    dialog.addEventListener('cancel', () => done(null));
    document.body.append(dialog);
    dialog.showModal();
    box.select();
  });
}

// Which lesions a lesion head learns from: a choice of presets.
export function lesionsLike(forms) {
  return el('select', { class: 'lesions-like', 'aria-label': 'Lesions as in' }, Object.entries(forms.lesions).map(([name, title]) => el('option', { value: name }, title)));
}

// Asks which of several; resolves to the names chosen, or null. more: what else the dialog holds.
export function pick(text, options, chosen, yes, more = null) {
  return new Promise((resolve) => {
    const boxes = Object.entries(options).map(([name, title]) => [name, el('input', { type: 'checkbox', checked: chosen.includes(name) }), title]);
    const dialog = el('dialog', { class: 'ask' });
    const done = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    dialog.append(el('form', { onsubmit: (e) => { e.preventDefault(); done(boxes.filter(([, b]) => b.checked).map(([n]) => n)); } }, el('p', {}, text),
      boxes.map(([, box, title]) => el('label', { class: 'check' }, box, title)), more,
      el('menu', {}, el('button', { type: 'button', onclick: () => done(null) }, 'Cancel'), el('button', { class: 'main' }, yes))));
    dialog.addEventListener('cancel', () => done(null));
    document.body.append(dialog);
    dialog.showModal();
  });
}
