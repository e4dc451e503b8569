// An administrator's functions for a study: adding cases, the watched folder, assignment of cases, labels of findings.
// The server checks the right to each of them again.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { closing, fill, finder, finderOfAll } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { administers } from '../../static/store.js';
import { accounts } from './accounts.js';
import { audit } from './audit.js';
import { addForm, eraseForm, labelsForm, readersForm, watchForm, watchState } from './manage_forms.js';

/** @param {HTMLElement} root @param {Page.Studio} studio @param {{bring: (start: () =>
 * Promise<{task: string}>, doing: string) => Promise<unknown>, join: (files: import('./files.js').Upload[]) =>
 * unknown, refresh: () => unknown}} on bring: follow an import; refresh: read the study again */
export function manage(root, studio, { bring, join, refresh }) {
  const $ = finder(root);
  const all = finderOfAll(root);
  /** @type {Answers.Managed | null} */
  let data = null;
  /** @type {string | undefined} time of the last arrival in the watched folder */
  let arrived;
  const address = (/** @type {string} */ path) =>
    /** @type {const} */ (`/api/manage/${encodeURIComponent(studio.study || '')}${path}`);

  const buttons = all('[data-opens]');
  closing($('.menu'));
  $('.menu nav').onclick = () => ($('.menu').open = false);
  for (const button of buttons) {
    button.onclick = () => {
      for (const other of buttons) {
        const open = other === button && other.getAttribute('aria-expanded') === 'false';
        other.setAttribute('aria-expanded', String(open));
        $(`.m-${other.dataset.opens}`).hidden = !open;
      }
    };
  }

  const people = accounts($('.m-accounts'), studio, async () => {
    data = await api(`/api/manage/${encodeURIComponent(studio.study || '')}`);
    dealing();
  });
  $('[data-opens=accounts]').addEventListener('click', () => orToast(people.show()));
  eraseForm($('.m-erase'), refresh);
  const trail = audit(root, studio); // its click handler runs after the one above, which opens the panel

  /** Sends a form and shows the answer; after an error, shown as a message, the form keeps its input.
   * @param {string} path @param {Values} body @param {() => void} paint */
  async function send(path, body, paint) {
    const answer = await orToast(api(address(path), body));
    if (!answer || !data) return false;
    Object.assign(data, answer);
    paint();
    return true;
  }
  const add = (/** @type {Values} */ values) => {
    const path = /** @type {const} */ (`/api/study/${encodeURIComponent(studio.study || '')}/add`);
    return bring(() => api(path, { ...values, ask: true }), 'Reading').then(refresh);
  };
  function watching() {
    const set = (/** @type {Values} */ values) => send('/watch', values, watching);
    if (data) fill($('.m-watch'), watchForm(data.watch, data.runs, set));
  }
  function dealing() {
    if (!data) return;
    const assign = (/** @type {string[]} */ readers, /** @type {number} */ perCase) =>
      send('/assign', { readers, per_case: perCase }, dealing);
    const unassign = (/** @type {string} */ reader) => send('/unassign', { reader }, dealing);
    fill($('.m-readers'), readersForm(data, { assign, unassign }));
  }
  function naming() {
    if (!data) return;
    const keep = async (/** @type {string[]} */ labels) =>
      (await send('/labels', { labels }, naming)) && toast('Labels saved.', 'good');
    fill($('.m-labels'), labelsForm(data.labels, keep));
  }

  /** @param {string} study */
  async function open(study) {
    const got = await orToast(api(`/api/manage/${encodeURIComponent(study)}`));
    if (!got || study !== studio.study) return;
    data = got;
    arrived = undefined;
    const take = (/** @type {string} */ tool, /** @type {File} */ file) => orToast(annotate(tool, file));
    fill($('.m-add'), addForm(add, join, take));
    watching();
    dealing();
    naming();
    orToast(people.show());
    trail.show();
  }

  /** @param {string} tool @param {File} file */
  async function annotate(tool, file) {
    const study = encodeURIComponent(studio.study || '');
    const path = /** @type {const} */ (`/api/export/${study}/annotations?tool=${tool}`);
    const { cases, findings, cut, unknown, passed_over } = await api(path, file, { method: 'PUT' });
    const edge = cut ? `; ${plural(cut, 'shape')} clipped at the image border` : '';
    const rest = unknown.length ? `; no case found for ${plural(unknown.length, 'name')}` : '';
    const skipped = passed_over.length ? `; skipped: ${passed_over.slice(0, 3).join('; ')}` : '';
    const sentence = `${plural(findings, 'finding')} on ${plural(cases, 'case')}${edge}${rest}${skipped}.`;
    toast(sentence, skipped || rest ? 'bad' : 'good');
    refresh();
  }

  // A bundle is one zip, sent as it is.
  /** @param {File} file */
  async function bundle(file) {
    toast(`Importing ${file.name}…`);
    const { study, rows } = await api('/api/export/bundle', file);
    toast(`${plural(rows.cases, 'case')} and ${plural(rows.reviews, 'decision')} imported.`, 'good');
    studio.chooseStudy(study);
  }
  const button = $('.pick-bundle');
  button.onclick = () => $('input.bundle').click();
  $('input.bundle').onchange = async (/** @type {any} */ { target }) => {
    const [file] = target.files;
    if (!file) return;
    button.disabled = studio.byHand = studio.importing = true;
    await orToast(bundle(file));
    button.disabled = studio.importing = false;
    target.value = '';
  };

  /** @param {Answers.Status} status */
  async function follow(status) {
    if (!data?.watch?.active || !studio.shown($('.m-watch'))) return;
    const { study } = studio;
    const { watch } = await api(`/api/manage/${encodeURIComponent(study || '')}/watch`);
    if (!study || study !== studio.study || !watch) return;
    data.watch = watch;
    fill($('.m-watch .state'), watchState(watch));
    const last = status.arrived?.[study];
    if (arrived !== undefined && last !== arrived) refresh();
    arrived = last;
  }
  studio.on('status', (status) => follow(status).catch((error) => console.debug(error.message)));

  async function rights() {
    const { administer } = await api('/api/manage');
    for (const part of all('.for-admin, .import, .layouts')) part.hidden = !administer;
    administers.value = administer;
  }
  orToast(rights());
  return { show: open };
}
