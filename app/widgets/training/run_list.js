// The study's runs as a table: parents with their fits below them, state, progress, figures.
import { signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { fixed, percent, seconds } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { Answered, started, status, study, trained } from '../../static/store.js';
import { html } from '../../static/view.js';

const MOST = 6; // runs that can be compared
export const archived = signal(false); // whether archived runs are listed as well
export const runs = new Answered(
  () => (started.value ? study.value : null),
  async (id) => (await api(`/api/training/runs?study=${encodeURIComponent(id)}&archived=${archived.peek()}`)).runs,
);
export const ticked = signal(/** @type {string[]} */ ([])); // the runs to compare

const BUSY = ['running', 'queued', 'paused', 'interrupted'];
/** States whose words differ from their names. @type {Record<string, string>} */
const WORDS = {
  new: 'not started',
  score: 'scoring',
  evaluate: 'evaluating',
  compare: 'comparing',
  embed: 'drawing the map',
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

/** Takes a run into the comparison, or out of it. @param {{run: Answers.RunRow}} props */
function Tick({ run: { id, name } }) {
  const others = ticked.value.filter((one) => one !== id);
  const on = others.length < ticked.value.length;
  const full = others.length === MOST;
  return html`<input type="checkbox" checked=${on} disabled=${full} aria-label="Compare ${name}"
    title=${full ? 'At most six runs can be compared' : null}
    onClick=${(/** @type {Event} */ event) => event.stopPropagation()}
    onChange=${() => (ticked.value = on ? others : [...others, id])} />`;
}

/** @param {Answers.RunRow} run */
function progress({ job, left, seconds: took }) {
  const rest = left == null ? '' : about(left);
  if (!job?.here || !BUSY.includes(job.status) || job.status === 'queued') return rest || (took ? seconds(took) : '–');
  return html`<progress max="1" value=${job.share} />${rest && html`<span class="dim"> ${rest} left</span>`}`;
}

/** @param {{run: Answers.RunRow, best: boolean, choose: (id: string) => void}} props */
function Row({ run, best, choose }) {
  const { look, words } = stateOf(run.status, run.job);
  const { l_aug: loss, val_accuracy: held } = run.latest;
  const { auroc, pixel_auroc: pixels, pro } = run.evaluation || {};
  const kind = [best && 'best', run.parent && 'child', run.archived && 'old', run.id === trained.value && 'chosen'];
  const enter = (/** @type {KeyboardEvent} */ { key }) => key === 'Enter' && choose(run.id);
  return html`<tr data-run=${run.id} class=${kind.filter(Boolean).join(' ')} tabindex="0"
    title=${run.note || null} onClick=${() => choose(run.id)} onKeyDown=${enter}>
    <td>${run.kind === 'pretrain' && html`<${Tick} run=${run} />`}</td>
    <td class="name">${run.parent ? `└ ${run.name}` : run.name}</td>
    <td class="dim">${run.method}</td>
    <td><span class="state ${look}">${words}</span></td>
    <td>${progress(run)}</td>
    <td>${fixed(loss)}</td>
    <td>${held == null ? '–' : accuracy(held)}</td>
    <td title=${best ? 'Best of this study' : null}>${fixed(auroc)}${best && html`<b> best</b>`}</td>
    <td>${fixed(pixels)}</td>
    <td>${fixed(pro)}</td>
  </tr>`;
}

/** Shows the rows of the table. @param {{choose: (id: string) => void}} props */
export function Rows({ choose }) {
  const best = bestOf(runs.value || []);
  return ordered(runs.value || []).map(
    (run) => html`<${Row} key=${run.id} run=${run} best=${run.id === best} choose=${choose} />`,
  );
}

/** Says what runs and what waits. */
export function hint() {
  const count = (/** @type {string} */ status) => runs.value?.filter((r) => r.status === status).length;
  const beside = status.value?.beside;
  const text = [
    count('running') && 'one running',
    count('queued') && `${count('queued')} waiting`,
    beside && `also running: ${beside.message}`,
  ];
  return text.filter(Boolean).join(', ');
}
