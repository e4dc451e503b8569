// The watched folder: files dropped into it are imported automatically.
import { action, check, el, options } from '../../static/dom.js';
import { day } from '../../static/format.js';
import { dom } from '../../static/view.js';
import { form, path } from './manage_parts.js';

const ABOUT =
  'Images and recordings put into this folder are added automatically, scored, and shown in Review. ' +
  'The folder is watched while the studio is open.';

/** Describes the job of a watched folder. @param {NonNullable<Answers.Watch['job']>} job */
function doing({ status, message }) {
  if (status === 'running') return message;
  return status === 'queued' ? 'waiting for the job that is at work' : `${status}; resume it in Training`;
}

/** Describes the state of a watched folder. @param {Answers.Watch} watch */
export function watchState({ active, counts, job, message, left_out: left }) {
  const waiting = (counts.waiting || 0) + (counts.ready || 0);
  const facts = [
    active ? 'On' : 'Off',
    `${counts.taken || 0} taken`,
    waiting && `${waiting} still being written or waiting`,
    counts.double && `${counts.double} there already`,
    counts.failed && `${counts.failed} left out`,
    job && doing(job),
  ];
  return [
    el('p', { class: active ? 'good' : 'dim', role: 'status' }, facts.filter(Boolean).join(' · ')),
    message && el('p', { class: 'dim' }, message),
    left.length > 0 && dom`<ul class="dim">${left.map((f) => el('li', {}, `${f.name}: ${f.note}`))}</ul>`,
  ];
}

/** @param {Answers.Watch | null} watch @param {{id: string, name: string, created: string}[]} runs that can score new cases
 * @param {(values: {folder: string, run: string, copy: boolean, active: boolean}) => void} set */
export function watchForm(watch, runs, set) {
  const folder = path('Folder on this machine', watch?.folder);
  const named = runs.map((r) => /** @type {const} */ ([r.id, `${r.name} · ${day(r.created)}`]));
  const run = el('select', { 'aria-label': 'Scored by' }, options([['', 'the run that Review opens with'], ...named]));
  run.value = watch?.run || '';
  const copy = check('Copy into the studio', { checked: watch?.copy });
  const send = (/** @type {boolean} */ active) =>
    set({ folder: folder.box.value, run: run.value, copy: copy.box.checked, active });
  const active = watch?.active;
  const fields = dom`${folder.label}<label>Scored by ${run}</label>${copy.label}
    <button class=${active ? null : 'main'}>${active ? 'Keep changes' : 'Watch'}</button>
    ${active && action('Stop watching', () => send(false))}`;
  const state = watch ? watchState(watch) : el('p', { class: 'dim' }, ABOUT);
  return [form(() => send(true), fields), el('div', { class: 'state' }, state)];
}
