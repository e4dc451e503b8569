// One run: state and buttons, an alarm in words, its board, its configuration, its log.
import { render } from 'preact';
import { api } from '../../static/api.js';
import { ask, asked, confirm, orToast, toast } from '../../static/dialogs.js';
import { el, finder, onEnter } from '../../static/dom.js';
import { bytes, moment, plural, seconds } from '../../static/format.js';
import { html, show } from '../../static/view.js';
import { FitBoard, TrainingBoard } from './boards.js';
import { pairs } from './figures.js';
import { detectorForms } from './new_run.js';
import { stateOf } from './run_list.js';

const GOING = ['running', 'queued', 'paused', 'interrupted', 'failed'];

/** @param {HTMLElement} root @param {Answers.TrainingForms} forms @param {(next?: string) => void} changed
 * reloads the list, and selects `next` if given @param {(run: Answers.Run) => void} clone */
export function runView(root, forms, changed, clone) {
  const $ = finder(root);
  const fits = detectorForms(forms);
  /** What is known of a run. last: the latest known step; text: the painted answer, without its series.
   * @param {string | null} id */
  const unknown = (id) => ({
    id,
    last: -1,
    stride: 0,
    series: /** @type {Answers.Series} */ ({}),
    text: '',
    asked: false,
  });
  let known = unknown(null);
  /** @type {Answers.RunDetail} the answer on screen */
  let data;

  /** @param {string} id */
  function open(id) {
    if (known.id !== id) {
      known = unknown(id);
      $('.detail').classList.add('loading');
    }
    return orToast(look());
  }

  async function look() {
    const mine = known;
    if (!mine.id || mine.asked) return;
    mine.asked = true;
    try {
      const answer = await api(`/api/training/run/${mine.id}?after=${mine.last}&stride=${mine.stride}`);
      if (mine === known) take(answer);
    } finally {
      mine.asked = false;
    }
  }

  /** Adds new values to the known ones. @param {Answers.RunDetail} answer */
  function take({ series, ...answer }) {
    const { last, stride, reset } = answer;
    Object.assign(known, { last, stride }, reset && { series: {} });
    for (const [name, points] of Object.entries(series)) {
      const kept = (known.series[name] ||= []);
      kept.push(...points.filter(([step]) => step > (kept.at(-1)?.[0] ?? -1)));
    }
    data = { ...answer, series: known.series };
    const text = JSON.stringify(answer);
    if (text !== known.text) paint(data);
    known.text = text;
    $('.detail').classList.remove('loading');
    root.dataset.step = String(last);
  }

  /** @param {Answers.RunDetail} data */
  function paint(data) {
    const { run } = data;
    header(data);
    const failure = run.status === 'failed' ? data.job?.error : '';
    const message = data.alarm || (run.status === 'collapsed' ? run.summary.message : failure) || '';
    $('.alarm').textContent = message;
    $('.said-note').textContent = run.note;
    const Board = run.kind === 'pretrain' ? TrainingBoard : FitBoard;
    $('.board').classList.toggle('of-fit', run.kind !== 'pretrain');
    render(html`<${Board} key=${run.id} data=${data} />`, $('.board'));
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
  function at({ plan, series }) {
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
    answered(api(`/api/training/run/${known.id}/${action}`, { value }));
  const actAndTell = (/** @type {string} */ action, value = '') => act(action, value).then(() => changed());
  for (const action of ['pause', 'resume']) $(`.${action}`).onclick = () => actAndTell(action);

  $('.cancel').onclick = async () => {
    const question =
      'Cancel this run and the detectors that wait for it? Its last checkpoint is kept. To interrupt it, use Pause.';
    if (await confirm(question, 'Cancel run', 'Keep running')) await actAndTell('cancel');
  };
  const rename = async () => {
    const name = await ask('Name of the run', data.run.name);
    if (name) await actAndTell('rename', name);
  };
  $('.run-name').onclick = rename;
  onEnter($('.run-name'), rename);
  $('.note').onclick = async () => {
    const note = await ask('Note', data.run.note, { long: true });
    if (note !== null) await actAndTell('note', note);
  };
  $('.archive').onclick = () => actAndTell(data.run.archived ? 'restore' : 'archive');
  $('.delete').onclick = async () => {
    const frees = await answered(api(`/api/training/run/${known.id}/frees`, {}));
    if (!frees) return;
    const fits = data.children.length;
    const also = fits ? ` and the ${plural(fits, 'fit')} on it` : '';
    const text =
      `Delete “${data.run.name}”${also}, with metrics, scores and heat maps? ` +
      `It stays in the bin of the Study tab for a week; then ${bytes(frees.bytes)} are freed.`;
    if (!(await confirm(text, 'Delete')) || !(await act('delete'))) return;
    toast('In the bin for a week: see the Study tab.', 'good');
    known = unknown(null);
    changed();
  };
  $('.repeat').onclick = async () => {
    const made = await answered(api(`/api/training/run/${known.id}/repeat`, {}));
    if (made) changed(made.run);
  };
  $('.clone').onclick = () => clone(data.run);
  $('.fit').onclick = async () => {
    fits.reset();
    const place = el('div');
    show(place, fits.Choice);
    const content = [el('p', {}, 'Fit on this encoder, then score the study and evaluate:'), place];
    const detectors = await asked({ content, answer: fits.chosen, yes: 'Queue' });
    if (!detectors || !Object.keys(detectors).length) return;
    if (await orToast(api(`/api/training/run/${known.id}/fit`, { detectors }))) changed();
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

/** @param {Answers.RunDetail} detail */
function configuration({ run, data }) {
  const { marks, ...config } = run.config;
  const packages = Object.entries(run.packages || {}).map(([name, version]) => `${name} ${version}`);
  return [
    ['seed', run.config.seed],
    ['code', run.code],
    ['device', run.device],
    ['data', data ? `${data.name}, fingerprint ${(data.fingerprint || '').slice(0, 16)}` : ''],
    ['created', moment(run.created)],
    ['packages', packages.join(', ')],
    ['marks', marks ? `${/** @type {{ masks: number[] }} */ (marks).masks.length} masks that readers drew` : null],
    ...flat(config),
  ].map(([name, value]) => [name, value == null || value === '' ? '–' : value]);
}
