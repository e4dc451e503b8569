// The jobs of the open study: a card with its stages, the time left, and suggestions for the meantime.
import { api, questions } from './api.js';
import { confirm, orToast } from './dialogs.js';
import { seconds } from './format.js';
import * as store from './store.js';
import { html, show } from './view.js';

export const GOAL = 5; // number of marked lesions at which learning is first offered: the first of the server's OFFERS

/** Formats an estimate of the time left. @param {number} s */
export const about = (s) => (s < 5 ? 'a few seconds' : `about ${seconds(s < 90 ? 5 * Math.ceil(s / 5) : s)}`);

const newest = questions();
/** Fetches the plan while jobs run, and once more when they have ended. Emits `scored` when the first run has
 * scored the study.
 * @param {Page.Studio} studio @param {boolean} going */
export async function followPlan(studio, going) {
  const before = store.plan.peek();
  if (!going && !before?.jobs.length) return;
  const { study } = studio;
  const isNewest = newest();
  const plan = await api(`/api/status/plan?study=${encodeURIComponent(study || '')}`);
  if (study !== studio.study || !isNewest()) return;
  store.plan.value = plan;
  if (before && !before.scored && plan.scored) studio.emit('scored', study);
}

/** @param {{stage: Answers.Stage}} props */
function Line({ stage: { title, state, left, share } }) {
  const end = state === 'waiting' ? about(left) : state === 'running' ? `${about(left)} left` : state;
  return html`<li class=${state}>
    <i aria-hidden="true" /><span class="title">${title}</span>
    ${state === 'running' ? html`<progress max="1" value=${share} aria-label=${title} />` : html`<span />`}
    <span class="num end">${end}</span>
  </li>`;
}

/** @param {{studio: Page.Studio}} props */
function Card({ studio }) {
  const plan = store.plan.value;
  if (!plan?.stages.length) return null;
  const { stages, jobs, scored, left } = plan;
  const stop = async () => {
    const question = 'Stop everything? Finished parts stay; unfinished runs can be resumed in Training.';
    if (!(await confirm(question, 'Stop', 'Keep running'))) return;
    for (const job of [...jobs].reverse()) await api(`/api/status/stop/${job}`, {});
  };
  const to = (/** @type {string} */ tab, /** @type {string} */ text, /** @type {string} */ title, main = false) =>
    html`<button type="button" class=${main ? 'main' : ''} title=${title} onClick=${() => studio.openTab(tab)}>${text}</button>`;
  return html`<section class="panel plan" aria-label="Running">
    <header>
      <h2>Running</h2>
      <span class="dim left">${about(left)} left in total · continues when this page is closed</span>
      <span class="dim num">${stages.filter((s) => s.state === 'done').length} of ${stages.length}</span>
    </header>
    <ol>${stages.map((stage) => html`<${Line} stage=${stage} />`)}</ol>
    <footer>
      ${scored && to('review', 'See the first results', 'Cases by score, with heat maps', true)}
      <span class="dim">${scored ? '' : 'Meanwhile:'}</span>
      ${to('medmix', 'Make lesions in MedMix', 'Available now: lesions made from normal images, tuned by eye')}
      ${to('training', 'Watch the training', 'Curves, epoch by epoch')}
      <span class="space" />
      <button type="button" class="stop" onClick=${() => orToast(stop())}>Stop</button>
    </footer>
  </section>`;
}

/** Shows a card that follows the plan, or nothing without one. @param {Element} place @param {Page.Studio} studio */
export const planCard = (place, studio) => show(place, Card, { studio });

/** Says when scores will be ready, or how to get them. */
export function Unscored() {
  const stages = store.plan.value?.stages || [];
  const first = stages.findIndex((s) => s.left > 0 && /score|look/i.test(s.title));
  const left = stages.slice(0, first + 1).reduce((sum, s) => sum + s.left, 0);
  return first < 0
    ? 'No run has scored this study yet. “Look” in the Study tab takes about a minute.'
    : `Not scored yet: the first scores are being made, ${about(left)} left. The images can be read without them.`;
}

/** Says whether a job is waiting or running. @param {string | null | undefined} status */
export const underWay = (status) => ['queued', 'running'].includes(status || '');
