// Reading sessions: start one, see how far it is, end it with its summary.
import { get, post } from '../../../static/api.js';
import { asked } from '../../../static/dialogs.js';
import { el, fill } from '../../../static/dom.js';
import { moment, plural } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { showSummary } from './session_summary.js';

/** @typedef {import('./review_view.js').ReviewView} ReviewView */

/** @param {string} text @param {string} note @param {boolean} checked */
function box(text, note, checked) {
  const input = el('input', { type: 'checkbox', checked });
  return { input, label: el('label', { class: 'check' }, input, el('span', {}, text, el('small', {}, note))) };
}

/** Asks what the session shall hold and starts it. @param {ReviewView} review */
async function begin(review) {
  const { study } = review;
  const found = await get('/api/reading', { study });
  if (!found.ok) return review.say(found.error, 'bad');
  const which = el(
    'select',
    { 'aria-label': 'Which cases' },
    found.choices.map(({ name, title, cases }) =>
      el('option', { value: name, disabled: !cases }, `${title} (${cases})`),
    ),
  );
  const count = el('input', { type: 'number', min: 1, 'aria-label': 'How many', placeholder: 'all', value: '' });
  const blind = box('Blind first', 'Score, heat map and mask are shown after your first decision.', true);
  const shuffled = box('Shuffled', 'In random order; otherwise in the order of the worklist.', true);
  const neutral = box('Neutral names', 'Random names, made anew for each session.', true);
  const { planted } = found;
  const lesions = box(
    'Planted lesions',
    `Beside a hundred cases some ${planted.per_hundred} normal images with a planted lesion, in blind sessions, then without masks, tags and undo. They count nowhere, and are revealed at the end.`,
    Boolean(planted.agreed),
  );
  lesions.input.addEventListener('change', async () => {
    const answer = await post('/api/reading/agree', { study, agreed: lesions.input.checked });
    if (!answer.ok) review.say(answer.error, 'bad');
  });
  const follow = () => {
    // A blind session has no order and no name that gives a label away.
    for (const { input } of [shuffled, neutral]) {
      if (blind.input.checked) input.checked = true;
      input.disabled = blind.input.checked;
    }
  };
  blind.input.addEventListener('change', follow);
  if (found.blind) {
    blind.input.disabled = true;
    blind.label.title = 'An administrator has set this study to be read blind';
  }
  follow();
  const over = found.over.map(({ id, cases, blind: hidden, created, reader }) => {
    const whose = reader === review.setup?.reader ? '' : `, ${reader}`;
    return el(
      'option',
      { value: id },
      `${moment(created)}, ${plural(cases, 'case')}${hidden ? ', blind' : ''}${whose}`,
    );
  });
  const earlier = el(
    'select',
    { 'aria-label': 'Earlier sessions', onchange: () => earlier.value && showSummary(review, Number(earlier.value)) },
    el('option', { value: '' }, 'Summary of an earlier session …'),
    over,
  );
  const wanted = await asked({
    content: [
      el('h2', {}, 'Start a reading session'),
      el('div', { class: 'rv-ask' }, el('label', {}, 'Which cases', which), el('label', {}, 'How many', count)),
      blind.label,
      shuffled.label,
      neutral.label,
      planted.per_hundred > 0 && !found.blind && lesions.label,
      over.length > 0 && earlier,
    ],
    answer: () => ({
      study,
      choice: which.value,
      count: Number(count.value) || 0,
      blind: blind.input.checked,
      shuffled: shuffled.input.checked,
      neutral: neutral.input.checked,
    }),
    otherwise: null,
    yes: 'Start',
  });
  if (!wanted) return;
  const answer = await post('/api/reading/start', wanted);
  if (!answer.ok) return review.say(answer.error, 'bad');
  if (study) await anew(review, study);
}

/** Names and images from before leave at once. @param {ReviewView} review @param {string} study */
function anew(review, study) {
  review.leave();
  shownCase.value = null;
  return review.open(study);
}

/** @param {ReviewView} review */
export async function finish(review) {
  const { study } = review;
  const answer = await post('/api/reading/end', {});
  if (!answer.ok) return review.say(answer.error, 'bad');
  if (review.setup?.trial && !review.setup.trial.planted) {
    // Without an open list nothing of the study is shown: it is not asked for.
    review.leave();
    shownCase.value = null;
    return review.studio.openTab('trials');
  }
  if (study) await anew(review, study);
  await showSummary(review, answer.session);
}

/** The line above the worklist: a way into a session, or how far the open one is. @param {ReviewView} review */
export function sessionBar(review) {
  const element = el('div', { class: 'rv-session' });
  return {
    element,
    show() {
      const { setup, list } = review;
      const { session } = setup || {};
      if (!session) {
        const button = el('button', { type: 'button', onclick: () => begin(review) }, 'Start a reading session');
        return fill(element, button);
      }
      const { read = 0, total = 0 } = list.counts || {};
      const done = total > 0 && read === total;
      const kind = setup?.trial && !setup.trial.planted ? 'Trial' : session.blind ? 'Blind' : 'Session';
      const look = { type: 'button', class: done ? 'main' : '', onclick: () => finish(review) };
      return fill(
        element,
        el('span', { class: 'rv-session-name' }, `${kind}: ${done ? 'all read' : `${total - read} left`}`),
        el('button', look, 'End session'),
      );
    },
  };
}
