// Importing a study, by path or by dropping files. The server works in the background; this waits for it, and asks the
// reader what it wants to know before it stores anything.
import { api } from '../../static/api.js';
import { asked, choose, orToast, toast } from '../../static/dialogs.js';
import { el, finder, finderOfAll, onEnter } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { dom } from '../../static/view.js';
import { chosenFiles, dropAnywhere } from './files.js';
import { overview } from './room.js';

/** @typedef {import('./files.js').Upload} Upload */

const ANSWERS = { normal: 'Normal', abnormal: 'Abnormal', out: 'Skip' };
const SPLITS = { train: 'Training', holdout: 'Validation', test: 'Test' };
const PERIOD = 250; // milliseconds between checks of an import
const SENDERS = 3; // files uploaded at the same time

/** Returns the last part of a path, without .csv, as a name for the study. @param {string} path */
export const nameOf = (path) => /([^/\\]*?)(\.csv)?[/\\]*$/i.exec(path)?.[1] || '';

const count = (/** @type {number} */ n) => (n === 1 ? '1 image' : `${n.toLocaleString('en')} images`);

/** @param {string} name */
const placeOf = (name) => name.replace(/^\.(?=$| \()/, 'This folder');

/** Describes the interpretation of a group. @param {Answers.ImageGroup} group */
function meaningOf({ meaning }) {
  const [split, label] = meaning.split(' ');
  return meaning === 'left out' ? 'Skipped' : `${SPLITS[/** @type {'train'} */ (split)]}, ${label}`;
}

/** Shows the first images of a group. @param {string} task @param {number} index @param {Answers.ImageGroup} group */
function samples(task, index, group) {
  const onerror = (/** @type {any} */ { target }) => target.remove();
  const image = (/** @type {number} */ number) => {
    const src = `/api/study/import/${task}/sample.png?group=${index}&number=${number}`;
    return el('img', { src, alt: `Image ${number + 1} of ${placeOf(group.name)}`, loading: 'lazy', onerror });
  };
  return dom`<div class="samples">${Array.from({ length: group.samples }, (_, number) => image(number))}</div>`;
}

/** Asks an import's questions: the meaning of the groups of images, whether the interpretation is right, and whether to
 * import erased images again. Resolves to the body of the answer, or null if the import is cancelled.
 * @param {string} task @param {Answers.ImportQuestion} question */
function askImport(task, { groups, erased }) {
  if (erased) {
    const content = dom`<h2>${plural(erased, 'file')} ${erased === 1 ? 'was' : 'were'} erased from this studio</h2>
      <p>Erased images are skipped unless you import them again.</p>
      <label class="check"><input type="checkbox" name="again" />Import erased images again</label>`;
    return asked({ content, answer: (given) => ({ again: given.has('again') }), yes: 'Import' });
  }
  const unclear = groups.filter((group) => !group.meaning);
  const known = groups.filter((group) => group.meaning);
  const only = unclear.length === 1 && !known.length ? unclear[0] : null;
  const images = groups.filter((g) => g.meaning !== 'left out').reduce((sum, group) => sum + group.images, 0);
  const all = images === 1 ? 'Is this image normal?' : `Are all ${images.toLocaleString('en')} images normal?`;
  const title = only ? all : unclear.length ? 'Which images are normal?' : `Import ${count(images)}?`;
  const choice = (/** @type {string} */ name) => {
    const way = (/** @type {string[]} */ [value, words]) =>
      dom`<label class="check"><input type="radio" name=${name} value=${value} required />${words}</label>`;
    const ways = Object.entries(ANSWERS).map(way);
    return el('div', { class: 'choice', role: 'radiogroup', 'aria-label': placeOf(name) }, ways);
  };
  const rows = groups.map((group, index) => {
    const { name, meaning, masks, why } = group;
    const left = meaning === 'left out';
    const facts = [left ? plural(group.images, 'file') : count(group.images), masks > 0 && `${masks} with masks`];
    const note = [meaning && name !== '.' && name, why].filter(Boolean).join(': ');
    return dom`<section>
      <p><b>${meaning ? meaningOf(group) : placeOf(name)}</b> ${facts.filter(Boolean).join(', ')}</p>
      ${note && el('small', {}, meaning ? note : `Asked because ${note}.`)}
      ${!left && samples(task, index, group)}${!meaning && !only && choice(name)}
    </section>`;
  });
  const answer = (/** @type {FormData} */ given) => ({
    answers: Object.fromEntries(unclear.map(({ name }) => [name, only ? 'normal' : given.get(name)])),
  });
  const note = unclear.length
    ? 'The detectors learn what is normal from the normal images alone.'
    : 'This is how the folder was understood.';
  return asked({
    content: dom`<h2>${title}</h2><p class="dim">${note}</p><div class="import-question">${rows}</div>`,
    answer,
    yes: only ? (images === 1 ? 'Yes, it is normal' : 'Yes, all are normal') : 'Import',
  });
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export function importing(root, studio) {
  const $ = finder(root);
  const busy = (/** @type {boolean} */ yes) => {
    $('.go-path').disabled = yes;
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

  async function follow(/** @type {string} */ task) {
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
      report(total ? `Reading ${done} of ${total}${left}` : 'Reading…', done, total);
      await new Promise((go) => setTimeout(go, PERIOD));
    }
  }

  /** Starts an import, waits for its end and opens the study. @param {() => Promise<{task: string}>} start */
  async function bring(start) {
    busy(true);
    studio.byHand = studio.importing = true;
    report('Reading…');
    try {
      const report = await follow((await start()).task);
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
    bring(() => api('/api/study/import', body));
  };
  onEnter($('.folder'), () => $('.go-path').click());

  /** Uploads files one by one, each with its path below the dropped folder, so that the layout is kept. Resolves to
   * the upload's token. @param {Upload[]} files */
  async function send(files) {
    const { drop } = await api('/api/study/drop', {});
    const queue = files.values(); // which the senders share
    let done = 0;
    const worker = async () => {
      for (const { path, file } of queue) {
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
    return bring(start);
  }

  /** Adds the files as new test cases of the open study; the first of them is opened. @param {Upload[]} files */
  async function join(files) {
    if (!files.length) return;
    const path = /** @type {const} */ (`/api/study/${encodeURIComponent(studio.study || '')}/add`);
    const per_second = Number($('.per-second').value) || 1;
    const got = await bring(async () => api(path, { drop: await send(files), per_second, ask: true }));
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

  dropAnywhere(offer);
  for (const button of finderOfAll(root)('[data-picks]')) button.onclick = () => $(button.dataset.picks).click();
  for (const input of [$('.files'), $('.whole')]) input.onchange = () => offer(chosenFiles(input));
  return { bring, join };
}
