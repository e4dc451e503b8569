// The administrator's forms: adding cases, erasing a patient, the watched folder, assignments, labels of findings.
import { api } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { action, check, dropZone, el, fill, num, options, table, tr } from '../../static/dom.js';
import { day, plural } from '../../static/format.js';
import { dom } from '../../static/view.js';
import { chosenFiles, droppedFiles } from './files.js';

/** @param {() => unknown} submit @param {...Page.Child} parts */
export function form(submit, ...parts) {
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  };
  return el('form', { onsubmit }, ...parts);
}

/** A field for a path on this machine. @param {string} text @param {string} [value] */
export function path(text, value = '') {
  const look = { type: 'text', class: 'path', autocomplete: 'off', spellcheck: 'false' };
  const box = el('input', { ...look, value, 'aria-label': text });
  return { box, label: el('label', {}, text, box) };
}

// Adding cases to an existing study: one file, or all below a folder.
const ADDED =
  'Files become test cases without a label, scored by the run that Review opens with. A recording becomes a series ' +
  'of frames with a timeline in Review.';

const TOOLS = { coco: 'COCO', cvat: 'CVAT', 'label-studio': 'Label Studio', yolo: 'YOLO, zip', png: 'PNG masks, zip' };

/** Lesions drawn in another tool, matched by file name. @param {(tool: string, file: File) => unknown} annotate */
function annotations(annotate) {
  const tool = el('select', { 'aria-label': 'Tool' }, options(Object.entries(TOOLS)));
  const input = el('input', { type: 'file', class: 'annotations', accept: '.json,.xml,.zip', hidden: true });
  input.onchange = async () => {
    const [file] = input.files || [];
    if (file) await annotate(tool.value, file);
    input.value = '';
  };
  const pick = action('Choose a file', () => input.click(), { class: 'pick-annotations' });
  const found = el('span', { class: 'dim' }, ' Images are matched by file name.');
  return el('p', {}, 'Annotations from another tool ', tool, ' ', pick, input, found);
}

/** @param {(values: {path: string, keep: boolean, per_second: number}) => void} add @param {(files:
 * import('./files.js').Upload[]) => unknown} join adds dropped or chosen files @param {(tool: string, file:
 * File) => unknown} annotate imports lesions drawn elsewhere */
export function addForm(add, join, annotate) {
  const where = path('File or folder on this machine');
  const keep = check('Copy into the studio');
  const rate = el('input', { type: 'number', class: 'per-second', min: 0.01, max: 1000, step: 'any', value: 1 });
  rate.ariaLabel = 'Frames per second';
  const input = el('input', { type: 'file', multiple: true, hidden: true, onchange: () => taken(chosenFiles(input)) });
  const taken = (/** @type {import('./files.js').Upload[]} */ files) => files.length && join(files);
  const zone = dom`<div class="drop">
    <b>Drop images, a folder or a zip here</b>
    <span class="dim">or <button type="button" class="link" onclick=${() => input.click()}>choose files</button></span>
    ${input}
  </div>`;
  dropZone(zone, async (event) => taken(await droppedFiles(event)));
  const send = () => add({ path: where.box.value, keep: keep.box.checked, per_second: Number(rate.value) || 1 });
  const rated = el('label', {}, 'Recordings, frames per second ', rate);
  const fields = [where.label, rated, keep.label, el('button', {}, 'Add')];
  return [zone, form(send, fields), el('p', { class: 'dim' }, ADDED), annotations(annotate)];
}

// Erasing a patient: the stored data are listed first, and then exactly these are erased.
const ERASED =
  'Erases cases, masks, decisions, scores, prepared images, maps and backups in all studies. Models trained on ' +
  'them stay and are marked. The audit trail records the erasure, without the name. It cannot be undone.';

/** @param {HTMLElement} panel @param {() => unknown} erased called afterwards */
export function eraseForm(panel, erased) {
  const patient = el('input', { type: 'text', 'aria-label': 'Patient', maxlength: 4096, autocomplete: 'off' });
  const number = el('input', { type: 'number', 'aria-label': 'Case number', min: 1, step: 1 });
  const said = el('div', { class: 'traced', role: 'status' });
  const asked = () => ({ patient: patient.value, case: number.value ? Number(number.value) : null });

  /** @param {ReturnType<typeof asked>} who @param {Answers.Traced} trace */
  async function erase(who, trace) {
    const what = plural(trace.cases, 'case');
    if (!(await confirm(`Erase ${what} permanently?`, `Erase ${what}`, 'Keep', true))) return;
    const { still, open } = await api('/api/erase', { ...who, cases: trace.cases });
    const rest = still.length
      ? `Erased. Still named in: ${still.join(', ')}`
      : 'Erased; no file of the studio mentions it.';
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
    fill(said, list, action('Erase these data', go, { class: 'danger' }));
  }
  const fields = dom`<label>Patient, as named in the import${patient}</label>
    <label>or case number${number}</label>
    <button>Find</button>`;
  const search = () => orToast(find());
  fill(panel, form(search, fields), said, el('p', { class: 'dim' }, ERASED));
}

// The assignment of test cases to readers, and the withdrawal of unread ones.
const NONE = 'No readers yet: add them under “Accounts”.';

/** @param {Answers.Assignments} dealt @param {{assign: (readers: string[], perCase: number) =>
 * void, unassign: (reader: string) => void}} on */
export function readersForm({ readers, free, cases }, { assign, unassign }) {
  if (!readers.length) return [el('p', { class: 'dim' }, NONE)];
  const boxes = readers.map((reader) => ({ ...reader, ...check(reader.name) }));
  const ways = options([
    [1, 'one reader'],
    [2, 'two readers (double reading)'],
  ]);
  const twice = el('select', { 'aria-label': 'Readers for each case' }, ways);
  const back = (/** @type {string} */ name) =>
    action('unassign', () => unassign(name), { class: 'link', title: `Unassign the unread cases of ${name}` });
  const rows = boxes.map(({ name, role, assigned, read, read_in_all, label }) =>
    tr([
      label,
      el('td', { class: 'dim' }, role || ''),
      ...[assigned, read, read_in_all].map((n) => num(String(n))),
      assigned > read && back(name),
    ]),
  );
  const heads = ['Reader', '', 'assigned', 'assigned and read', 'read in total', ''];
  const chosen = () => boxes.filter((b) => b.box.checked).map((b) => b.name);
  const about = `${plural(free, 'test case')} of ${cases} unassigned. Cases are assigned evenly; earlier assignments stay.`;
  const fields = [table(heads, rows), el('label', {}, 'Readers per case ', twice), el('button', {}, 'Assign')];
  return [form(() => assign(chosen(), Number(twice.value)), fields), el('p', { class: 'dim' }, about)];
}

// The watched folder: files dropped into it are imported automatically.
const WATCHED =
  'Images and recordings put into this folder are added automatically, scored, and shown in Review. ' +
  'The folder is watched while the studio is open.';

/** Describes the job of a watched folder. @param {NonNullable<Answers.Watch['job']>} job */
function doing({ status, message }) {
  if (status === 'running') return message;
  return status === 'queued' ? 'waiting for the running job' : `${status}; resume it in Training`;
}

/** Describes the state of a watched folder. @param {Answers.Watch} watch */
export function watchState({ active, counts, job, message, left_out: left }) {
  const waiting = (counts.waiting || 0) + (counts.ready || 0);
  const facts = [
    active ? 'On' : 'Off',
    `${counts.taken || 0} imported`,
    waiting && `${waiting} still being written or waiting`,
    counts.double && `${counts.double} already imported`,
    counts.failed && `${counts.failed} skipped`,
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
    <button class=${active ? null : 'main'}>${active ? 'Save changes' : 'Watch'}</button>
    ${active && action('Stop watching', () => send(false))}`;
  const state = watch ? watchState(watch) : el('p', { class: 'dim' }, WATCHED);
  return [form(() => send(true), fields), el('div', { class: 'state' }, state)];
}

// The labels of findings that Review offers.
const LABELS = 'One per line. Review offers them when a mask is saved; existing findings keep their labels.';

/** @param {string[]} labels @param {(labels: string[]) => void} keep */
export function labelsForm(labels, keep) {
  const rows = Math.min(Math.max(labels.length + 1, 3), 8);
  const box = el('textarea', { rows, 'aria-label': 'Labels, one on each line' });
  box.value = labels.join('\n');
  return [form(() => keep(box.value.split('\n')), box, el('button', {}, 'Save')), el('p', { class: 'dim' }, LABELS)];
}
