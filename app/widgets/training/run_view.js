// One run: state and buttons, an alarm in words, its board, its configuration, its log.
import { render } from 'preact';
import { api } from '../../static/api.js';
import { ask, asked, confirm, orToast, toast } from '../../static/dialogs.js';
import { check, finder, onEnter } from '../../static/dom.js';
import { bytes, moment, plural, seconds } from '../../static/format.js';
import { dom, html } from '../../static/view.js';
import { FitBoard, TrainingBoard } from './boards.js';
import { lesionsLike } from './detector_forms.js';
import { pairs } from './figures.js';
import { stateOf } from './run_list.js';

const GOING = ['running', 'queued', 'paused', 'interrupted', 'failed'];

/** @param {HTMLElement} root @param {Answers.TrainingForms} forms @param {(next?: string | null) => void} changed
 * reloads the list, and selects `next` if given @param {(run: Answers.Run) => void} clone */
export function runView(root, forms, changed, clone) {
  const $ = finder(root);
  /** @type {string | null} */
  let id = null;
  /** @type {Answers.RunDetail | null} */
  let data = null;
  /** @type {Answers.Series} */
  let series = {};
  let last = -1; // the last known step
  let stride = 0;
  let looking = false;
  let shown = ''; // the last painted answer, without its series

  /** Returns the run on screen. @returns {Answers.Run} */
  function run() {
    if (!data) throw new Error('No run is open.');
    return data.run;
  }

  /** @param {string} wanted */
  function open(wanted) {
    if (id !== wanted) {
      id = wanted;
      data = null;
      series = {};
      last = -1;
      stride = 0;
      shown = '';
      $('.detail').classList.add('loading');
    }
    return orToast(look());
  }

  async function look() {
    const mine = id;
    if (!mine || looking) return;
    looking = true;
    try {
      const answer = await api(`/api/training/run/${mine}?after=${last}&stride=${stride}`);
      if (mine !== id) return;
      take(answer);
      const text = JSON.stringify({ ...answer, series: null });
      if (text !== shown) paint(answer);
      shown = text;
      $('.detail').classList.remove('loading');
      root.dataset.step = String(last);
    } finally {
      looking = false;
      if (mine !== id) orToast(look()); // another run was opened meanwhile
    }
  }

  /** Adds new values to the known ones. @param {Answers.RunDetail} answer */
  function take(answer) {
    data = answer;
    ({ last, stride } = answer);
    if (answer.reset) series = {};
    for (const [name, points] of Object.entries(answer.series)) {
      const kept = (series[name] ||= []);
      for (const p of points) if (!kept.length || p[0] > kept[kept.length - 1][0]) kept.push(p);
    }
  }

  /** @param {Answers.RunDetail} data */
  function paint(data) {
    const { run } = data;
    header(data);
    const failure = run.status === 'failed' ? data.job?.error : '';
    const message = data.alarm || (run.status === 'collapsed' ? run.summary.message : failure) || '';
    $('.alarm').hidden = !message;
    $('.alarm').textContent = message;
    $('.said-note').hidden = !run.note;
    $('.said-note').textContent = run.note;
    const Board = run.kind === 'pretrain' ? TrainingBoard : FitBoard;
    $('.board').classList.toggle('of-fit', run.kind !== 'pretrain');
    render(html`<${Board} key=${run.id} data=${data} series=${series} last=${last} />`, $('.board'));
    render(pairs(configuration(data)), $('.made .facts'));
    log(data);
  }

  /** @param {Answers.RunDetail} data */
  function header(data) {
    const { run, job } = data;
    const { look, words } = stateOf(run.status, job);
    $('.run-name').textContent = run.name;
    $('.who .state').className = `state ${look}`;
    $('.who .state').textContent = words;
    $('.where').textContent = [run.id, run.device, run.seconds ? seconds(run.seconds) : ''].filter(Boolean).join(' · ');
    const status = job?.here ? job.status : '';
    $('.pause').hidden = !['running', 'queued'].includes(status);
    $('.resume').hidden = !['paused', 'interrupted', 'failed', 'cancelled'].includes(status);
    $('.cancel').hidden = !['running', 'queued', 'paused', 'interrupted'].includes(status);
    $('.fit').hidden = !(run.kind === 'pretrain' && ['done', 'collapsed'].includes(run.status));
    $('.clone').hidden = run.kind !== 'pretrain';
    $('.archive').textContent = run.archived ? 'Restore' : 'Archive';
    $('.going').hidden = !GOING.includes(status);
    if (!job || !GOING.includes(status)) return;
    $('.going progress').value = job.share;
    const doing = status === 'failed' && job.error ? job.error.split('\n').pop() : job.message;
    $('.doing').textContent = [doing, status === 'running' ? at(data) : ''].filter(Boolean).join(' · ');
  }

  /** Shows epoch and speed; the time left is in the list. @param {Answers.RunDetail} data */
  function at({ plan }) {
    const epoch = series.epoch?.at(-1)?.[1];
    const speed = series.images_per_second?.at(-1)?.[1];
    const where = epoch != null && plan.epochs && `epoch ${epoch} of ${plan.epochs}`;
    return [where, speed && `${Math.round(speed)} views/s`].filter(Boolean).join(' · ');
  }

  /** @param {Answers.RunDetail} data */
  function log(data) {
    const lines = data.log.map((l) => `${l.at.slice(11, 19)}  ${l.line}`).join('\n');
    const pre = $('.log pre');
    if (pre.textContent === lines) return;
    pre.textContent = lines || 'No log entries.';
    pre.scrollTop = pre.scrollHeight;
  }

  /** Resolves to the server's answer, or to null after a message. @template T @param {Promise<T>} asked */
  const answered = async (asked) => {
    const answer = await orToast(asked);
    await look().catch(() => {});
    return answer;
  };
  const act = (/** @type {string} */ action, value = '') =>
    answered(api(`/api/training/run/${id}/${action}`, { value }));
  const actAndTell = (/** @type {string} */ action, value = '') => act(action, value).then(() => changed());
  for (const action of ['pause', 'resume']) $(`.${action}`).onclick = () => actAndTell(action);

  $('.cancel').onclick = async () => {
    const question =
      'Cancel this run and the detectors that wait for it? Its last checkpoint is kept. To interrupt it, use Pause.';
    if (await confirm(question, 'Cancel run', 'Keep running')) await actAndTell('cancel');
  };
  const rename = async () => {
    const name = await ask('Name of the run', run().name);
    if (name) await actAndTell('rename', name);
  };
  $('.run-name').onclick = rename;
  onEnter($('.run-name'), rename);
  $('.note').onclick = async () => {
    const note = await ask('Note', run().note, { long: true });
    if (note !== null) await actAndTell('note', note);
  };
  $('.archive').onclick = async () => {
    await act(run().archived ? 'restore' : 'archive');
    changed($('.archived').checked ? undefined : null);
  };
  $('.delete').onclick = async () => {
    const frees = await answered(api(`/api/training/run/${id}/frees`, {}));
    if (!frees) return;
    const fits = data?.children.length;
    const also = fits ? ` and the ${plural(fits, 'fit')} on it` : '';
    const text =
      `Delete “${run().name}”${also}, with metrics, scores and heat maps? ` +
      `It stays in the bin of the Study tab for a week; then ${bytes(frees.bytes)} are freed.`;
    if (!(await confirm(text, 'Delete'))) return;
    const done = await act('delete');
    if (!done) return;
    toast('In the bin for a week: see the Study tab.', 'good');
    id = null;
    changed(null);
  };
  $('.repeat').onclick = async () => {
    const made = await answered(api(`/api/training/run/${id}/repeat`, {}));
    if (made) changed(made.run);
  };
  $('.clone').onclick = () => clone(run());
  $('.fit').onclick = async () => {
    const like = lesionsLike(forms);
    const boxes = Object.entries(forms.detectors).map(
      ([name, { title }], i) => check(title, { name: 'detector', value: name, checked: i === 0 }).label,
    );
    const content = dom`<p>Fit on this encoder, then score the study and evaluate:</p>
      ${boxes}<label>Synthetic lesions for${like}</label>`;
    const names = await asked({ content, answer: (given) => given.getAll('detector').map(String), yes: 'Queue' });
    if (!names?.length) return;
    const detectors = Object.fromEntries(names.map((n) => [n, forms.detectors[n].lesions[like.value] || {}]));
    if (await orToast(api(`/api/training/run/${id}/fit`, { detectors }))) changed();
  };

  return { open, look };
}

// Everything that determined a run, as one list: seed, code, data, packages, settings.
/** Nested settings as [key.with.dots, value]. @param {Record<string, unknown>} values @returns {[string, unknown][]} */
export function flat(values, before = '') {
  return Object.entries(values).flatMap(([key, value]) => {
    const name = `${before}${key}`;
    if (value && typeof value === 'object' && !Array.isArray(value))
      return flat(/** @type {Record<string, unknown>} */ (value), `${name}.`);
    return [[name, Array.isArray(value) ? value.join(', ') : value]];
  });
}

/** @param {Answers.RunDetail} detail @returns {[string, unknown][]} */
function configuration({ run, data }) {
  const { marks, ...config } = run.config;
  const packages = Object.entries(run.packages || {}).map(([name, version]) => `${name} ${version}`);
  /** @type {[string, unknown][]} */
  const settings = [
    ['seed', run.config.seed],
    ['code', run.code],
    ['device', run.device],
    ['data', data ? `${data.name}, fingerprint ${(data.fingerprint || '').slice(0, 16)}` : ''],
    ['created', moment(run.created)],
    ['packages', packages.join(', ')],
    ['marks', marks ? `${/** @type {{ masks: number[] }} */ (marks).masks.length} masks that readers drew` : null],
    ...flat(config),
  ];
  return settings.map(([name, value]) => [name, value == null || value === '' ? '–' : value]);
}
