// Erasing a patient: the stored data are listed first, and then exactly these are erased.
import { api } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { action, el, fill } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { dom } from '../../static/view.js';
import { form } from './manage_parts.js';

const ABOUT =
  'In all studies of this home: cases, masks, decisions, scores, prepared images, maps and backups. What has learnt from ' +
  'them stays and says so. The audit trail keeps that it was done, without the name. Nothing brings it back.';

/** @param {HTMLElement} panel @param {() => unknown} erased called afterwards */
export function eraseForm(panel, erased) {
  const patient = el('input', { type: 'text', 'aria-label': 'Patient', maxlength: 4096, autocomplete: 'off' });
  const number = el('input', { type: 'number', 'aria-label': 'Number of a case', min: 1, step: 1 });
  const said = el('div', { class: 'traced', role: 'status' });
  const asked = () => ({ patient: patient.value, case: number.value ? Number(number.value) : null });

  /** @param {ReturnType<typeof asked>} who @param {Answers.Traced} trace */
  async function erase(who, trace) {
    const what = plural(trace.cases, 'case');
    if (!(await confirm(`Erase ${what} for good?`, `Erase ${what}`, 'Keep', true))) return;
    const { still, open } = await api('/api/erase', { ...who, cases: trace.cases });
    const rest = still.length
      ? `Erased. Still named in: ${still.join(', ')}`
      : 'Erased; no file in this home mentions it.';
    const paragraph = (/** @type {string} */ line) => el('p', {}, line);
    fill(said, [...open, rest].map(paragraph));
    toast(`${what} erased.`, 'good');
    erased();
  }
  async function find() {
    fill(said);
    const who = asked();
    const { trace, lines } = await api('/api/erase/find', who);
    const go = () => orToast(erase(who, trace));
    const list = dom`<ul>${lines.map((/** @type {string} */ line) => el('li', {}, line))}</ul>`;
    fill(said, list, action('Erase this', go, { class: 'danger' }));
  }
  const fields = dom`<label>Patient, as the import named it${patient}</label>
    <label>or number of a case${number}</label>
    <button>Find</button>`;
  const search = () => orToast(find());
  fill(panel, form(search, fields), said, el('p', { class: 'dim' }, ABOUT));
}
