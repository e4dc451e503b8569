// The study's runs as a table: parents with their fits below them, state, progress, figures.
import { toast } from '../../static/dialogs.js';
import { el, finder, onEnter } from '../../static/dom.js';
import { fixed, percent, seconds } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { dom } from '../../static/view.js';

const MOST = 6; // runs that can be compared
const BUSY = ['running', 'queued', 'paused', 'interrupted'];
/** States whose words differ from their names. @type {Record<string, string>} */
export const WORDS = {
  new: 'not started',
  score: 'scoring',
  evaluate: 'evaluating',
  compare: 'comparing',
  embed: 'drawing its map',
};

/** Returns the words and the style of a run's state. @param {string} status @param {Answers.RunRow['job']} job */
export function stateOf(status, job) {
  const here = job?.here ? job : null;
  if (here?.status === 'paused') return { look: 'paused', words: 'paused' };
  const going = here?.status === 'running';
  const look = going && status === 'done' ? 'running' : status;
  if (going && here.wants !== 'run') return { look, words: here.wants === 'pause' ? 'pausing…' : 'cancelling…' };
  const said = going && status === 'done' ? here.verb : status;
  return { look, words: WORDS[said] || said };
}

/** Returns each parent, newest first, followed by its fits, oldest first. @param {Answers.RunRow[]} runs newest first */
export function ordered(runs) {
  const parents = runs.filter((r) => !r.parent || !runs.some((p) => p.id === r.parent));
  return parents.flatMap((p) => [p, ...runs.filter((r) => r.parent === p.id).reverse()]);
}

const UNTRAINED = ['untrained', 'imagenet', 'auto', 'weights']; // encoders without a training, hence without curves

/** Returns the running run; else the newest training, which has the most curves; else the newest fit, else any run.
 * @param {Answers.RunRow[]} runs newest first */
export const firstShown = (runs) =>
  runs.find((r) => r.status === 'running') ||
  runs.find((r) => r.kind === 'pretrain' && !UNTRAINED.includes(r.method)) ||
  runs.find((r) => r.kind === 'fit') ||
  runs[0];

/** Returns the run with the best image AUROC of two or more evaluated on the same cases. @param {Answers.RunRow[]} runs */
export function bestOf(runs) {
  const known = runs.filter((r) => !r.archived && r.evaluation?.auroc != null);
  const best = known.reduce((a, b) => ((a?.evaluation?.auroc ?? -1) >= (b.evaluation?.auroc ?? -1) ? a : b), known[0]);
  const alike = new Set(known.map((r) => r.evaluation?.set)).size === 1;
  return known.length > 1 && alike ? best.id : null;
}

/** Formats per cent, with a decimal only near the ends, where it matters. @param {number} v */
const accuracy = (v) => percent(v, v > 0.995 || v < 0.1 ? 1 : 0);

export class RunList {
  /** @param {HTMLElement} root @param {(id: string) => void} choose */
  constructor(root, choose) {
    this.$ = finder(root);
    this.choose = choose;
    /** @type {Answers.RunRow[]} */
    this.runs = [];
    /** @type {string | null} */
    this.chosen = null;
    /** @type {Set<string>} the runs to compare */
    this.ticked = new Set();
    /** @type {string | null} */
    this.best = null;
    this.running = '';
    /** @type {Answers.Job | null} the job running during a training */
    this.beside = null;
  }

  get body() {
    return this.$('.runs tbody');
  }

  /** @param {Answers.RunRow[]} runs @param {string | null} chosen */
  show(runs, chosen) {
    const { $ } = this;
    this.runs = runs;
    this.chosen = chosen;
    this.best = bestOf(runs);
    const { body } = this;
    const focused = document.activeElement?.closest('tr')?.dataset.run;
    body.replaceChildren(...ordered(runs).map((run) => this.#row(run)));
    if (focused) body.querySelector(`[data-run="${focused}"]`)?.focus();
    $('.runs').hidden = !runs.length;
    $('.nothing').hidden = Boolean(runs.length);
    if (!runs.length) $('.detail').hidden = $('.versus').hidden = true;
    this.hint(this.beside);
    // The running run is scrolled into view only when it begins, not against later scrolling.
    const running = runs.find((r) => r.job?.here && r.job.status === 'running')?.id || '';
    if (running && running !== this.running)
      body.querySelector(`[data-run="${running}"]`)?.scrollIntoView({ block: 'nearest' });
    this.running = running;
  }

  /** @param {Answers.Job | null} beside */
  hint(beside) {
    this.beside = beside;
    const waiting = this.runs.filter((r) => r.status === 'queued').length;
    const text = [
      this.runs.some((r) => r.status === 'running') && 'one at work',
      waiting && `${waiting} waiting`,
      beside && `beside: ${beside.message}`,
    ];
    this.$('.runs .hint').textContent = text.filter(Boolean).join(', ');
  }

  /** @param {Answers.RunRow} run */
  #tick(run) {
    const { ticked, $ } = this;
    const tick = el('input', { type: 'checkbox', checked: ticked.has(run.id), 'aria-label': `Compare ${run.name}` });
    tick.onclick = (event) => event.stopPropagation();
    tick.onchange = () => {
      if (tick.checked && ticked.size === MOST) {
        tick.checked = false;
        toast('At most six runs can be compared.');
        return;
      }
      if (tick.checked) ticked.add(run.id);
      else ticked.delete(run.id);
      $('.compare').disabled = ticked.size < 2;
    };
    return tick;
  }

  /** @param {Answers.RunRow} run */
  #progress({ job, left, seconds: took }) {
    const rest = left == null ? '' : about(left);
    if (!job?.here || !BUSY.includes(job.status) || job.status === 'queued')
      return rest ? rest : took ? seconds(took) : '–';
    const bar = el('progress', { max: 1, value: job.share });
    return [bar, rest && el('span', { class: 'dim' }, ` ${rest} left`)];
  }

  /** @param {Answers.RunRow} run */
  #row(run) {
    const { look, words } = stateOf(run.status, run.job);
    const { l_aug: loss, val_accuracy: held } = run.latest;
    const { auroc, pixel_auroc: pixels, pro } = run.evaluation || {};
    const first = run.id === this.best;
    const kind = [first && 'best', run.parent && 'child', run.archived && 'old', run.id === this.chosen && 'chosen'];
    const choose = () => this.choose(run.id);
    const kinds = kind.filter(Boolean).join(' ');
    const row = dom`<tr data-run=${run.id} class=${kinds} tabindex="0" title=${run.note || null} onclick=${choose}>
      <td>${run.kind === 'pretrain' && this.#tick(run)}</td>
      <td class="name">${run.parent ? `└ ${run.name}` : run.name}</td>
      <td class="dim">${run.method}</td>
      <td><span class="state ${look}">${words}</span></td>
      <td>${this.#progress(run)}</td>
      <td>${fixed(loss)}</td>
      <td>${held == null ? '–' : accuracy(held)}</td>
      <td title=${first ? 'Best of this study' : null}>${fixed(auroc)}${first && dom`<b> best</b>`}</td>
      <td>${fixed(pixels)}</td>
      <td>${fixed(pro)}</td>
    </tr>`;
    onEnter(row, choose);
    return row;
  }
}
