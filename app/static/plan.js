// What is being made for the open study: a card with its stages, how long it still takes, what can be tried meanwhile.
import { api } from './api.js';
import { confirm, orToast } from './dialogs.js';
import { el, fill } from './dom.js';
import { seconds } from './format.js';

/** @typedef {import('./answers').Plan} Plan */
/** @typedef {import('./answers').Stage} Stage */
/** @typedef {import('./types').Studio} Studio */

/** @type {Record<Stage['state'], string>} */
const WORDS = { done: 'done', running: 'at work', waiting: '', failed: 'failed', stopped: 'stopped' };

/** A time left, as it may be promised. @param {number} s */
export const about = (s) => (s < 5 ? 'a few seconds' : `about ${seconds(s < 90 ? 5 * Math.ceil(s / 5) : s)}`);

/**
 * Asks what is planned while something is at work, and once more when it has ended. Emits `plan`, and `scored` when the
 * first run has scored the study.
 * @param {Studio} studio
 * @param {boolean} going
 */
export async function followPlan(studio, going) {
  if (!going && !studio.plan?.jobs.length) return;
  const { study, plan: before } = studio;
  const plan = await api(`/api/status/plan?study=${encodeURIComponent(study || '')}`);
  if (study !== studio.study) return;
  studio.plan = plan;
  studio.emit('plan', plan);
  if (before && !before.scored && plan.scored) studio.emit('scored', study);
}

/** @param {Stage} stage */
function line({ title, state, left, share }) {
  const end = state === 'waiting' ? about(left) : state === 'running' ? `${about(left)} left` : WORDS[state];
  return el(
    'li',
    { class: state },
    el('i', { 'aria-hidden': 'true' }),
    el('span', { class: 'title' }, title),
    state === 'running' ? el('progress', { max: 1, value: share, 'aria-label': title }) : el('span'),
    el('span', { class: 'num end' }, end),
  );
}

/** @param {Studio} studio @param {Plan} plan */
function buttons(studio, { jobs, scored }) {
  const to = (/** @type {string} */ tab, /** @type {string} */ text, /** @type {string} */ title, main = false) =>
    el('button', { type: 'button', class: main ? 'main' : null, title, onclick: () => studio.openTab(tab) }, text);
  const stop = async () => {
    const question = 'Stop all of it? What is finished stays, and Training can go on with what was begun.';
    if (!(await confirm(question, 'Stop', 'Let it go on'))) return;
    for (const job of [...jobs].reverse()) await api(`/api/status/stop/${job}`, {});
  };
  return el(
    'footer',
    {},
    scored && to('review', 'See the first results', 'Cases by score, with heat maps', true),
    studio.study
      ? [
          el('span', { class: 'dim' }, scored ? '' : 'Meanwhile:'),
          to('medmix', 'Make lesions in MedMix', 'Works at once: lesions made out of normal images, tuned by eye'),
          to('training', 'Watch the training', 'Curves, epoch by epoch'),
        ]
      : el('span', { class: 'dim' }, 'Meanwhile, images of your own can be imported on the left.'),
    el('span', { class: 'space' }),
    el('button', { type: 'button', class: 'stop', onclick: () => orToast(stop()) }, 'Stop'),
  );
}

/** A card that follows the plan and is hidden while there is none. @param {Studio} studio */
export function planCard(studio) {
  const card = el('section', { class: 'panel plan', hidden: true, 'aria-label': 'What is being made' });
  let shown = '';
  const show = (/** @type {Plan | null} */ plan) => {
    card.hidden = !plan?.stages.length;
    if (!plan || card.hidden) return;
    const text = JSON.stringify(plan) + studio.study;
    if (text === shown) return; // a button keeps its focus
    shown = text;
    const done = plan.stages.filter((s) => s.state === 'done').length;
    fill(
      card,
      el(
        'header',
        {},
        el('h2', {}, studio.study ? 'In the making' : 'The demo study is being made'),
        el('span', { class: 'dim left' }, `${about(plan.left)} left in all · goes on when this page is closed`),
        el('span', { class: 'dim num' }, `${done} of ${plan.stages.length}`),
      ),
      el('ol', {}, plan.stages.map(line)),
      buttons(studio, plan),
    );
  };
  studio.on('plan', show);
  studio.on('study', () => show(null));
  show(studio.plan);
  return card;
}

/** What is said where a study has no scores yet: that they are on their way, and when; or how to have them. @param {Studio} studio */
export function unscored(studio) {
  const said = el('p', { class: 'dim unscored', role: 'status' });
  const show = () => {
    const stages = studio.plan?.stages || [];
    const first = stages.findIndex((s) => s.left > 0 && /score|look/i.test(s.title));
    const left = stages.slice(0, first + 1).reduce((sum, s) => sum + s.left, 0);
    said.textContent =
      first < 0
        ? 'No run has scored this study yet. “Look now” in the Study tab takes about a minute; Training makes a better one.'
        : `Not scored yet: the first scores are being made, ${about(left)} left. The images can be read without them.`;
  };
  studio.on('plan', () => said.isConnected && show());
  show();
  return said;
}

/** Whether a job waits or runs. @param {string | null | undefined} status */
export const underWay = (status) => ['queued', 'running'].includes(status || '');
