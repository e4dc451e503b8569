// The page's messages and questions: notes in a corner, questions in a dialog.
import { el } from './dom.js';
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

/** Handles the submission of a form: passes its data on, and shows the error if that fails.
 * @param {(given: FormData, form: HTMLFormElement) => Promise<unknown>} act */
export const submitted = (act) => (/** @type {any} */ event) => {
  event.preventDefault();
  return orToast(act(new FormData(event.target, event.submitter), event.target));
};

/**
 * Shows a modal form. Resolves to `answer` of its data when it is submitted, to null when it is cancelled.
 * @template A
 * @param {{content: Page.Child[], answer: (given: FormData) => A, yes: string, no?: string, danger?: boolean}} question
 * danger: the action cannot be undone, and the button is red
 * @returns {Promise<A | null>}
 */
export function asked({ content, answer, yes, no = 'Cancel', danger = false }) {
  return new Promise((resolve) => {
    const send = (/** @type {any} */ { target }) => {
      dialog.close();
      resolve(answer(new FormData(target)));
    };
    const form = dom`<form method="dialog" onsubmit=${send}>
      ${content}
      <menu>
        <button type="button" class="plain" onclick=${() => dialog.close()}>${no}</button>
        <button class=${danger ? 'danger' : 'main'}>${yes}</button>
      </menu>
    </form>`;
    const dialog = sheet('', [form], () => resolve(null)); // nothing if it was sent
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
  asked({ content: [el('p', {}, text)], answer: () => true, yes, no, danger });

/** Asks for a text (long: several lines). Resolves to it, or null if cancelled.
 * @param {string} text @param {string} [value] @param {{long?: boolean, yes?: string, maxlength?: number}} [options] */
export function ask(text, value = '', { long = false, yes = 'Save', maxlength } = {}) {
  const look = { name: 'text', 'aria-label': text, maxlength, value };
  const box = long ? el('textarea', { rows: 4, ...look }) : el('input', { type: 'text', ...look });
  const content = [el('label', {}, text, box)];
  const answer = asked({ content, answer: (given) => String(given.get('text')), yes });
  box.select();
  return answer;
}

/** Asks for one of several options. Resolves to its name, or null if cancelled.
 * @param {string} text @param {Record<string, [title: string, note: string]>} ways @param {string} first the one that
 * is preselected @param {string} yes */
export function choose(text, ways, first, yes) {
  const rows = Object.entries(ways).map(([name, [title, note]]) => {
    const input = el('input', { type: 'radio', name: 'way', value: name, checked: name === first });
    return dom`<label class="check">${input}<span>${title}<small>${note}</small></span></label>`;
  });
  return asked({ content: [el('h2', {}, text), rows], answer: (given) => String(given.get('way')), yes });
}
