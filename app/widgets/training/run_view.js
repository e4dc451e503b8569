// One run: state and buttons, an alarm in words, its board, its configuration, its log.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { el, finder } from '../../static/dom.js';
import { moment, seconds } from '../../static/format.js';
import { FitBoard } from './fit_board.js';
import { wireActions } from './run_actions.js';
import { stateOf } from './run_list.js';
import { TrainingBoard } from './training_board.js';

const GOING = ['running', 'queued', 'paused', 'interrupted', 'failed'];

export class RunView {
  /** @param {HTMLElement} root @param {Answers.TrainingForms} forms @param {{changed: (next?:
   * string | null) => void, clone: (run: Answers.Run) => void}} on changed: reload the list, and select `next` if
   * given */
  constructor(root, forms, { changed, clone }) {
    this.root = root;
    this.forms = forms;
    this.changed = changed;
    this.clone = clone;
    this.$ = finder(root);
    /** @type {string | null} */
    this.id = null;
    /** @type {Answers.RunDetail | null} */
    this.data = null;
    /** @type {Answers.Series} */
    this.series = {};
    this.last = -1; // the last known step
    this.stride = 0;
    this.looking = false;
    this.shown = ''; // the last painted state, as text
    this.configured = '';
    this.board = new TrainingBoard(this.$('.board'));
    this.fit = new FitBoard();
    this.$('.board').after(this.fit.element);
    wireActions(this);
  }

  /** Returns the run on screen. @returns {Answers.Run} */
  run() {
    if (!this.data) throw new Error('No run is open.');
    return this.data.run;
  }

  children() {
    return this.data?.children || [];
  }

  /** @param {string} id */
  open(id) {
    if (this.id !== id) {
      Object.assign(this, { id, data: null, series: {}, last: -1, stride: 0, shown: '' });
      this.board.clear(id);
      this.fit.clear();
      this.$('.detail').classList.add('loading');
    }
    return orToast(this.look());
  }

  async look() {
    const { id } = this;
    if (!id || this.looking) return;
    this.looking = true;
    try {
      const data = await api(`/api/training/run/${id}?after=${this.last}&stride=${this.stride}`);
      if (id !== this.id) return;
      const moved = this.#take(data);
      const text = JSON.stringify({ ...data, series: null });
      if (moved || text !== this.shown) {
        this.shown = text;
        this.data = data;
        this.paint(data);
        this.$('.detail').classList.remove('loading');
      }
      this.root.dataset.step = String(this.last);
    } finally {
      this.looking = false;
      if (id !== this.id) orToast(this.look()); // another run was opened meanwhile
    }
  }

  /** Adds new values to the known ones; returns whether there are any. @param {Answers.RunDetail} data */
  #take({ series, reset, last, stride }) {
    if (reset) this.series = {};
    for (const [name, points] of Object.entries(series)) {
      const kept = (this.series[name] ||= []);
      for (const p of points) if (!kept.length || p[0] > kept[kept.length - 1][0]) kept.push(p);
    }
    const moved = last !== this.last || reset;
    Object.assign(this, { last, stride });
    return moved;
  }

  /** @param {Answers.RunDetail} data */
  paint(data) {
    const { $ } = this;
    const { run } = data;
    this.#header(data);
    const failure = run.status === 'failed' ? data.job?.error : '';
    const message = data.alarm || (run.status === 'collapsed' ? run.summary.message : failure) || '';
    $('.alarm').hidden = !message;
    $('.alarm').textContent = message;
    $('.said-note').hidden = !run.note;
    $('.said-note').textContent = run.note;
    const pretrain = run.kind === 'pretrain';
    $('.board').hidden = !pretrain;
    this.fit.element.hidden = pretrain;
    if (pretrain) this.board.paint(data, this.series, this.last);
    else this.fit.paint(data, this.series);
    const configured = JSON.stringify([run.config, run.code, run.status]);
    if (configured !== this.configured) $('.made .facts').replaceChildren(...configuration(data));
    this.configured = configured;
    this.#log(data);
  }

  /** @param {Answers.RunDetail} data */
  #header(data) {
    const { $ } = this;
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
    $('.doing').textContent = [doing, status === 'running' ? this.#at(data) : ''].filter(Boolean).join(' · ');
  }

  /** Shows epoch and speed; the time left is in the list. @param {Answers.RunDetail} data */
  #at({ plan }) {
    const epoch = this.series.epoch?.at(-1)?.[1];
    const speed = this.series.images_per_second?.at(-1)?.[1];
    const where = epoch != null && plan.epochs && `epoch ${epoch} of ${plan.epochs}`;
    return [where, speed && `${Math.round(speed)} views/s`].filter(Boolean).join(' · ');
  }

  /** @param {Answers.RunDetail} data */
  #log(data) {
    const log = data.log.map((l) => `${l.at.slice(11, 19)}  ${l.line}`).join('\n');
    const pre = this.$('.log pre');
    if (pre.textContent === log) return;
    pre.textContent = log || 'No log entries.';
    pre.scrollTop = pre.scrollHeight;
  }
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
export function configuration({ run, data }) {
  const { marks, ...config } = run.config;
  const packages = Object.entries(run.packages || {}).map(([name, version]) => `${name} ${version}`);
  /** @type {[string, unknown][]} */
  const pairs = [
    ['seed', run.config.seed],
    ['code', run.code],
    ['device', run.device],
    ['data', data ? `${data.name}, fingerprint ${(data.fingerprint || '').slice(0, 16)}` : ''],
    ['created', moment(run.created)],
    ['packages', packages.join(', ')],
    ['marks', marks ? `${/** @type {{ masks: number[] }} */ (marks).masks.length} masks that readers drew` : null],
    ...flat(config),
  ];
  return pairs.flatMap(([name, value]) => [
    el('span', { class: 'dim' }, name),
    el('span', {}, value == null || value === '' ? '–' : String(value)),
  ]);
}
