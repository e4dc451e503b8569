// Importing a study, by path or by dropping files. The server works in the background; this waits for it.
import { api } from '../../static/api.js';
import { choose, orToast, toast } from '../../static/dialogs.js';
import { dropZone, finder, finderOfAll, onEnter } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { chosenFiles, dropAnywhere, droppedFiles } from './files.js';
import { askImport } from './import_question.js';
import { overview } from './room.js';

/** @typedef {import('./files.js').Upload} Upload */

const PERIOD = 250; // milliseconds between checks of an import
const SENDERS = 3; // files uploaded at the same time

/** Returns the last part of a path, without .csv, as a name for the study. @param {string} path */
export const nameOf = (path) => /([^/\\]*?)(\.csv)?[/\\]*$/i.exec(path)?.[1] || '';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export function importing(root, studio) {
  const $ = finder(root);
  const busy = (/** @type {boolean} */ yes) => {
    for (const button of finderOfAll(root)('.go-path')) button.disabled = yes;
    $('.progress').hidden = !yes;
    $('.stop-import').hidden = true;
    $('.stop-import').disabled = false;
  };
  const report = (/** @type {string} */ text, done = 0, total = 0) => {
    const bar = $('.progress progress');
    if (total) bar.value = done / total;
    else bar.removeAttribute('value');
    $('.progress .what').textContent = text;
  };

  /** @param {string} task @param {string} doing */
  async function follow(task, doing) {
    const began = performance.now();
    $('.stop-import').hidden = false;
    $('.stop-import').onclick = () => {
      $('.stop-import').disabled = true;
      orToast(api(`/api/study/import/${task}/stop`, {}));
    };
    for (;;) {
      const state = await api(`/api/study/import/${task}`);
      if (state.state === 'failed') throw new Error(state.error);
      if (state.state === 'done') return state.report;
      if (state.state === 'asked') {
        const answer = await askImport(task, state.question);
        await api(`/api/study/import/${task}/${answer ? 'answer' : 'stop'}`, answer || {});
        if (!answer) return null;
        continue;
      }
      const { done, total } = state;
      const took = (performance.now() - began) / 1000;
      const left = done && took > 2 ? `, ${about((took * (total - done)) / done)} left` : '';
      report(total ? `${doing} ${done} of ${total}${left}` : `${doing}…`, done, total);
      await new Promise((go) => setTimeout(go, PERIOD));
    }
  }

  /** Starts an import, waits for its end and opens the study. @param {() => Promise<{task: string}>} start @param {string} doing */
  async function bring(start, doing) {
    busy(true);
    studio.byHand = studio.importing = true;
    report(`${doing}…`);
    try {
      const report = await follow((await start()).task, doing);
      if (!report) return toast('Nothing was imported.');
      const { study, accepted, rejected } = report;
      const left = rejected.length;
      toast(`${plural(accepted, 'image')} imported${left ? `, ${left} skipped` : ''}.`, left ? 'note' : 'good');
      $('.name').value = $('.folder').value = '';
      if (study !== studio.study) studio.chooseStudy(study);
      return report;
    } catch (error) {
      toast(error.message, 'bad');
    } finally {
      studio.importing = false;
      busy(false);
    }
  }

  const settings = (/** @type {string} */ fallback) => ({
    name: $('.name').value.trim() || fallback,
    per_second: Number($('.per-second').value) || 1,
    patient_letters: Number($('.patient-letters').value) || 0,
    ask: true,
  });
  $('.go-path').onclick = () => {
    const folder = $('.folder').value.trim();
    if (!folder) {
      $('.folder').focus();
      return toast('Enter the path of a folder or a CSV, or drop images below.', 'bad');
    }
    const body = { ...settings(nameOf(folder)), folder, keep: $('.copy').checked };
    bring(() => api('/api/study/import', body), 'Reading');
  };
  onEnter($('.folder'), () => $('.go-path').click());

  /** Uploads files one by one, each with its path below the dropped folder, so that the layout is kept. Resolves to
   * the upload's token. @param {Upload[]} files */
  async function send(files) {
    const { drop } = await api('/api/study/drop', {});
    let next = 0;
    let done = 0;
    const worker = async () => {
      while (next < files.length) {
        const { path, file } = files[next];
        next += 1;
        const target = `/api/study/drop/${drop}?path=${encodeURIComponent(path)}`;
        await api(target, undefined, { method: 'PUT', body: file });
        done += 1;
        report(`Sending ${done} of ${files.length}`, done, files.length);
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, worker));
    return drop;
  }

  /** Imports the files as a new study. @param {Upload[]} files */
  function found(files) {
    const [folder, ...below] = files[0].path.split('/');
    const name = below.length ? folder : folder.replace(/\.\w+$/, '');
    const start = async () => api('/api/study/import', { ...settings(name), drop: await send(files) });
    return bring(start, 'Reading');
  }

  /** Adds the files as new test cases of the open study; the first of them is opened. @param {Upload[]} files */
  async function join(files) {
    const path = /** @type {const} */ (`/api/study/${encodeURIComponent(studio.study || '')}/add`);
    const per_second = Number($('.per-second').value) || 1;
    const got = await bring(async () => api(path, { drop: await send(files), per_second, ask: true }), 'Reading');
    studio.emit('cases', studio.study);
    if (got?.first) studio.openCase(got.first);
  }

  /** Handles dropped or chosen files: if a study is open, the reader says what they are. @param {Upload[]} files */
  async function offer(files) {
    if (!files.length) return;
    if (!studio.study) return found(files);
    const loose = files.every(({ path }) => !path.includes('/') && !/\.zip$/i.test(path));
    const name = overview.value?.study.name || studio.study;
    const where = await choose(
      files.length === 1 ? `What is “${files[0].path}”?` : `What are these ${files.length} files?`,
      {
        add: [`New cases of “${name}”`, 'They are added without a label and scored; the first is opened in Review.'],
        found: ['A new study', 'It gets its own training; a flat folder counts as normal training images.'],
      },
      loose ? 'add' : 'found',
      'Continue',
    );
    if (where === 'add') return join(files);
    if (where === 'found') return found(files);
  }

  dropZone($('.drop'), async (event) => offer(await droppedFiles(event)));
  dropAnywhere(offer);
  $('.pick-folder').onclick = () => $('.whole').click();
  $('.pick-files').onclick = () => $('.files').click();
  for (const input of [$('.files'), $('.whole')]) input.onchange = () => offer(chosenFiles(input));
  return { bring, join };
}
