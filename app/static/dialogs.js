// The page's messages and questions: notes in a corner, questions in a dialog.
import { check, el } from './dom.js';
import { dom } from './view.js';

// Maximum number of notes, except errors: they share one line of the page, too narrow for more.
const most = () => (matchMedia('(max-width: 1100px)').matches ? 1 : 2);

/** @param {string} text @param {'note' | 'good' | 'bad'} [kind] */
export function toast(text, kind = 'note') {
  let rack = document.querySelector('#toasts');
  if (!rack) {
    rack = el('div', { id: 'toasts', role: 'status', 'aria-live': 'polite' });
    document.body.append(rack);
  }
  const passing = [...rack.children].filter((one) => !one.classList.contains('bad'));
  for (const old of passing.slice(0, Math.max(0, passing.length + 1 - most()))) old.remove();
  const note = el('div', { class: `toast ${kind}` }, text);
  rack.append(note);
  setTimeout(() => note.remove(), kind === 'bad' ? 9000 : 4500);
}

/** Shows the error if some work fails; resolves to the result, or null. @template T @param {Promise<T>} work */
export const orToast = (work) =>
  work.catch((error) => {
    toast(error.message, 'bad');
    return null;
  });

/**
 * Shows a modal form. Resolves to `answer()` when it is submitted, to `otherwise` when it is cancelled.
 * @template A, B
 * @param {{content: Page.Child[], answer: () => A, otherwise: B, yes: string, no?: string, danger?: boolean}} question
 * danger: the action cannot be undone, and the button is red
 * @returns {Promise<A | B>}
 */
export function asked({ content, answer, otherwise, yes, no = 'Cancel', danger = false }) {
  return new Promise((resolve) => {
    const send = () => {
      dialog.close();
      resolve(answer());
    };
    const form = dom`<form method="dialog" onsubmit=${send}>
      ${content}
      <menu>
        <button type="button" class="plain" onclick=${() => dialog.close()}>${no}</button>
        <button class=${danger ? 'danger' : 'main'}>${yes}</button>
      </menu>
    </form>`;
    const dialog = sheet('', [form], () => resolve(otherwise)); // nothing if it was sent
  });
}

/** Shows a modal sheet, removed when it is closed. @param {string} look @param {Page.Child[]} content
 * @param {() => void} [closed] */
export function sheet(look, content, closed) {
  const onclose = () => {
    dialog.remove();
    closed?.();
  };
  const dialog = el('dialog', { class: `ask widget ${look}`, onclose }, content);
  // Inside the page, so that its styles apply.
  (document.querySelector('.gradio-container') || document.body).append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks for confirmation of an action that cannot be undone. @param {string} text */
export const confirm = (text, yes = 'Yes', no = 'Cancel', danger = false) =>
  asked({ content: [el('p', {}, text)], answer: () => true, otherwise: false, yes, no, danger });

/** Asks for a text (long: several lines). Resolves to it, or null if cancelled.
 * @param {string} text @param {string} [value] @param {{long?: boolean, yes?: string, maxlength?: number}} [options] */
export function ask(text, value = '', { long = false, yes = 'Save', maxlength } = {}) {
  const look = { 'aria-label': text, maxlength };
  const box = long ? el('textarea', { rows: 4, ...look }) : el('input', { type: 'text', ...look });
  box.value = value;
  const answer = asked({ content: [el('label', {}, text, box)], answer: () => box.value, otherwise: null, yes });
  box.select();
  return answer;
}

/** Asks for one of several options. Resolves to its name, or null if cancelled.
 * @param {string} text @param {Record<string, [title: string, note: string]>} ways @param {string} first the one that
 * is preselected @param {string} yes */
export function choose(text, ways, first, yes) {
  const rows = Object.entries(ways).map(([name, [title, note]]) => {
    const input = el('input', { type: 'radio', name: 'way', value: name, checked: name === first });
    const label = dom`<label class="check">${input}<span>${title}<small>${note}</small></span></label>`;
    return { name, input, label };
  });
  return asked({
    content: [el('h2', {}, text), rows.map((r) => r.label)],
    answer: () => rows.find((r) => r.input.checked)?.name || first,
    otherwise: null,
    yes,
  });
}

/** Asks for a selection of options. Resolves to their names, or null. `more`: further content of the dialog.
 * @param {string} text @param {Record<string, string>} options their titles by name @param {string[]} chosen @param
 * {string} yes @param {Page.Child} [more] */
export function pick(text, options, chosen, yes, more = null) {
  const box = (/** @type {string} */ name) => ({ name, ...check(options[name], { checked: chosen.includes(name) }) });
  const boxes = Object.keys(options).map(box);
  return asked({
    content: [el('p', {}, text), boxes.map((b) => b.label), more],
    answer: () => boxes.filter((b) => b.box.checked).map((b) => b.name),
    otherwise: null,
    yes,
  });
}
