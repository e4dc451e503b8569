// An administrator's functions for a study: adding cases, the watched folder, assignment of cases, labels of findings,
// erasing a patient. The server checks the right to each of them again.
import { effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { confirm, orToast, submitted, toast } from '../../static/dialogs.js';
import { closing, dropZone, finder, finderOfAll } from '../../static/dom.js';
import { day, plural } from '../../static/format.js';
import { Answered, administers, study } from '../../static/store.js';
import { button, html, show, tableOf } from '../../static/view.js';
import { Accounts, people } from './accounts.js';
import { Trail } from './audit.js';
import { chosenFiles, droppedFiles } from './files.js';
import { open, openPanel, renew } from './room.js';

/** @typedef {(files: import('./files.js').Upload[]) => unknown} Join adds files to the open study */
/** @typedef {(start: () => Promise<{task: string}>) => Promise<unknown>} Bring follows an import */

const NONE = 'No readers yet: add them under “Accounts”.';
const WATCHED =
  'Images and recordings put into this folder are added automatically, scored, and shown in Review. ' +
  'The folder is watched while the studio is open.';
const LABELS = 'One per line. Review offers them when a mask is saved; existing findings keep their labels.';
const READERS = ['Reader', '', 'assigned', 'assigned and read', 'read in total', ''];

/** @template {string} P @param {P} path */
const of = (path) => /** @type {const} */ (`${path}/${encodeURIComponent(study.peek() || '')}`);

/** What an administrator may set of the open study. */
const managed = new Answered(
  () => (administers.value ? open() : null),
  (id) => api(`/api/manage/${encodeURIComponent(id)}`),
);

/** Changes a setting of the study. @param {string} path @param {Values} body */
async function change(path, body) {
  await api(`${of('/api/manage')}/${path}`, body);
  await managed.renew();
}

/** Imports lesions drawn in another tool, matched by file name. @param {string} tool @param {File} file */
async function annotate(tool, file) {
  const path = /** @type {const} */ (`${of('/api/export')}/annotations?tool=${tool}`);
  const { cases, findings, cut, unknown, passed_over } = await api(path, file, { method: 'PUT' });
  const edge = cut ? `; ${plural(cut, 'shape')} clipped at the image border` : '';
  const rest = unknown.length ? `; no case found for ${plural(unknown.length, 'name')}` : '';
  const skipped = passed_over.length ? `; skipped: ${passed_over.slice(0, 3).join('; ')}` : '';
  const sentence = `${plural(findings, 'finding')} on ${plural(cases, 'case')}${edge}${rest}${skipped}.`;
  toast(sentence, skipped || rest ? 'bad' : 'good');
  await renew();
}

/** @typedef {{who: Values, trace: Answers.PatientData, lines: string[]}} Found what is stored of a patient or a case */
const found = signal(/** @type {Found | null} */ (null));
const erased = signal(/** @type {string[]} */ ([]));

const find = submitted(async (given) => {
  const who = { patient: given.get('patient'), case: Number(given.get('case')) || null };
  found.value = null;
  erased.value = [];
  found.value = { who, ...(await api('/api/erase/find', who)) };
});

/** Erases exactly the data that were listed. @param {Found} data */
async function erase({ who, trace }) {
  const what = plural(trace.cases, 'case');
  if (!(await confirm(`Erase ${what} permanently?`, `Erase ${what}`, 'Keep', true))) return;
  const { still, open } = await api('/api/erase', { ...who, cases: trace.cases });
  const rest = still.length ? `. Still named in: ${still.join(', ')}` : '; no file of the studio mentions it.';
  found.value = null;
  erased.value = [...open, `Erased${rest}`];
  toast(`${what} erased.`, 'good');
  await renew();
}

/** Shows what is stored, and after the erasure what was done. */
function Traced() {
  const data = found.value;
  if (!data) return erased.value.map((line) => html`<p>${line}</p>`);
  return html`<ul>${data.lines.map((line) => html`<li>${line}</li>`)}</ul>
    ${button('Erase these data', () => orToast(erase(data)), { class: 'danger' })}`;
}

/** Assigns test cases to readers, and withdraws unread ones. */
function Assigning() {
  if (!managed.value) return null;
  const { readers, free, cases } = managed.value;
  if (!readers.length) return html`<p class="dim">${NONE}</p>`;
  const assign = submitted((given) =>
    change('assign', { readers: given.getAll('reader'), per_case: Number(given.get('per_case')) }),
  );
  /** @param {Answers.AssignedReader} reader */
  const row = ({ name, role, assigned, read, read_in_all }) => html`<tr key=${name}>
    <td><label class="check"><input type="checkbox" name="reader" value=${name} />${name}</label></td>
    <td class="dim">${role}</td>
    ${[assigned, read, read_in_all].map((n) => html`<td class="num">${n}</td>`)}
    <td>${
      assigned > read &&
      button('unassign', () => orToast(change('unassign', { reader: name })), {
        class: 'link',
        title: `Unassign the unread cases of ${name}`,
      })
    }</td>
  </tr>`;
  return html`<form key=${free} onSubmit=${assign}>
      ${tableOf(READERS, readers.map(row))}
      <label>Readers per case <select name="per_case" aria-label="Readers for each case">
        <option value="1">one reader</option><option value="2">two readers (double reading)</option>
      </select></label>
      <button>Assign</button>
    </form>
    <p class="dim">${plural(free, 'test case')} of ${cases} unassigned. Cases are assigned evenly; earlier assignments stay.</p>`;
}

/** Describes the job of a watched folder. @param {NonNullable<Answers.Watch['job']>} job */
function doing({ status, message }) {
  if (status === 'running') return message;
  return status === 'queued' ? 'waiting for the running job' : `${status}; resume it in Training`;
}

/** Shows the state of a watched folder. @param {{watch: Answers.Watch}} props */
function WatchState({ watch: { active, counts, job, message, left_out: left } }) {
  const waiting = (counts.waiting || 0) + (counts.ready || 0);
  const facts = [
    active ? 'On' : 'Off',
    `${counts.taken || 0} imported`,
    waiting && `${waiting} still being written or waiting`,
    counts.double && `${counts.double} already imported`,
    counts.failed && `${counts.failed} skipped`,
    job && doing(job),
  ];
  return html`<p class=${active ? 'good' : 'dim'} role="status">${facts.filter(Boolean).join(' · ')}</p>
    ${message && html`<p class="dim">${message}</p>`}
    ${left.length > 0 && html`<ul class="dim">${left.map((f) => html`<li>${f.name}: ${f.note}</li>`)}</ul>`}`;
}

/** Sets the folder whose new files are imported automatically. */
function Watching() {
  if (!managed.value) return null;
  const { watch, runs } = managed.value;
  const set = submitted((given) => {
    const [folder, run] = [given.get('folder'), given.get('run')];
    return change('watch', { folder, run, copy: given.has('copy'), active: given.has('active') });
  });
  const active = watch?.active;
  return html`<form key=${study.value} onSubmit=${set}>
      <label>Folder on this machine<input type="text" class="path" name="folder" aria-label="Folder on this machine"
        defaultValue=${watch?.folder} autocomplete="off" spellcheck="false" /></label>
      <label>Scored by <select name="run" aria-label="Scored by">
        <option value="">the run that Review opens with</option>
        ${runs.map((r) => html`<option value=${r.id} selected=${r.id === watch?.run}>${r.name} · ${day(r.created)}</option>`)}
      </select></label>
      <label class="check"><input type="checkbox" name="copy" defaultChecked=${watch?.copy} />Copy into the studio</label>
      <button name="active" class=${active ? '' : 'main'}>${active ? 'Save changes' : 'Watch'}</button>
      ${active && html`<button>Stop watching</button>`}
    </form>
    <div class="state">${watch ? html`<${WatchState} watch=${watch} />` : html`<p class="dim">${WATCHED}</p>`}</div>`;
}

/** Sets the labels of findings that Review offers. */
function Labelling() {
  if (!managed.value) return null;
  const { labels } = managed.value;
  const keep = submitted(async (given) => {
    await change('labels', { labels: String(given.get('labels')).split('\n') });
    toast('Labels saved.', 'good');
  });
  const text = labels.join('\n');
  return html`<form key=${`${study.value} ${text}`} onSubmit=${keep}>
      <textarea name="labels" aria-label="Labels, one on each line" rows=${Math.min(Math.max(labels.length + 1, 3), 8)} defaultValue=${text} />
      <button>Save</button>
    </form>
    <p class="dim">${LABELS}</p>`;
}

/** @param {HTMLElement} root @param {Page.Studio} studio @param {{bring: Bring, join: Join}} importing */
export function manage(root, studio, { bring, join }) {
  const $ = finder(root);
  const all = finderOfAll(root);
  show($('.m-watch'), Watching);
  show($('.m-readers'), Assigning);
  show($('.m-accounts'), Accounts, { changed: () => managed.renew() });
  show($('.m-labels'), Labelling);
  show($('.m-audit'), Trail);
  show($('.traced'), Traced);
  $('.m-erase form').onsubmit = find;
  effect(() => {
    if (managed.error) toast(managed.error, 'bad');
  });

  closing($('.menu'));
  $('.menu nav').onclick = () => ($('.menu').open = false);
  for (const button of all('[data-opens]')) {
    const name = button.dataset.opens;
    button.onclick = () => {
      openPanel.value = openPanel.value === name ? '' : name;
      if (name === 'accounts') people.renew();
    };
    effect(() => {
      button.setAttribute('aria-expanded', String(openPanel.value === name));
      $(`.m-${name}`).hidden = openPanel.value !== name;
    });
  }

  // Cases are added from a file, from all files below a folder, or by dropping or choosing files.
  $('.m-add form').onsubmit = submitted(async (given) => {
    const per_second = Number(given.get('rate')) || 1;
    const body = { path: given.get('path'), keep: given.has('keep'), per_second, ask: true };
    await bring(() => api(`${of('/api/study')}/add`, body));
    await renew();
  });
  dropZone($('.m-add .drop'), async (event) => join(await droppedFiles(event)));
  $('.more').onchange = () => join(chosenFiles($('.more')));

  /** @param {HTMLInputElement} input for one file @param {(file: File) => Promise<unknown>} take */
  const takes = (input, take) => {
    input.onchange = async () => {
      const [chosen] = chosenFiles(input);
      if (chosen) await orToast(take(chosen.file));
    };
  };
  takes($('.annotations'), (file) => annotate($('.tool').value, file));
  // A bundle is one zip, sent as it is.
  takes($('.bundle'), async (file) => {
    toast(`Importing ${file.name}…`);
    $('.pick-bundle').disabled = studio.byHand = studio.importing = true;
    try {
      const { study, rows } = await api('/api/export/bundle', file);
      toast(`${plural(rows.cases, 'case')} and ${plural(rows.reviews, 'decision')} imported.`, 'good');
      studio.chooseStudy(study);
    } finally {
      $('.pick-bundle').disabled = studio.importing = false;
    }
  });

  /** @type {Record<string, string>} time of the last arrival in a study's watched folder */
  const arrived = {};
  studio.on('status', async (/** @type {Answers.Status} */ status) => {
    const id = study.peek();
    if (!id || !managed.value?.watch?.active || !studio.shown($('.m-watch'))) return;
    await managed.renew();
    const last = status.arrived?.[id];
    if (id in arrived && last !== arrived[id]) orToast(renew());
    arrived[id] = last;
  });

  async function rights() {
    const { administer } = await api('/api/manage');
    for (const part of all('.for-admin, .import, .layouts')) part.hidden = !administer;
    administers.value = administer;
  }
  orToast(rights());
}
