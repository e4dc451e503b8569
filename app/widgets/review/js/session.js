// Reading sessions: start one, show its progress, end it with its summary.
import { enqueue, get, post } from '../../../static/api.js';
import { asked, sheet } from '../../../static/dialogs.js';
import { action, check, el, fill } from '../../../static/dom.js';
import { moment, plural } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { against, figures } from './session_figures.js';
import { printSession } from './session_print.js';

/** @param {string} text @param {string} note @param {boolean} checked */
const choice = (text, note, checked) => check(el('span', {}, text, el('small', {}, note)), { checked });

/** Asks for the session's contents and starts it. @param {ReviewView} review */
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
  const blind = choice('Blind first', 'Score, heat map and mask are shown after your first decision.', true);
  const shuffled = choice('Shuffled', 'In random order; otherwise in the order of the worklist.', true);
  const neutral = choice('Neutral names', 'Random names, new in each session.', true);
  const follow = () => {
    // In a blind session neither order nor names reveal a label.
    for (const { box } of [shuffled, neutral]) {
      if (blind.box.checked) box.checked = true;
      box.disabled = blind.box.checked;
    }
  };
  blind.box.addEventListener('change', follow);
  if (found.blind) {
    blind.box.disabled = true;
    blind.label.title = 'An administrator has made this a blind study';
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
      over.length > 0 && earlier,
    ],
    answer: () => ({
      study,
      choice: which.value,
      count: Number(count.value) || 0,
      blind: blind.box.checked,
      shuffled: shuffled.box.checked,
      neutral: neutral.box.checked,
    }),
    otherwise: null,
    yes: 'Start',
  });
  if (!wanted) return;
  await enqueue(async () => {
    const answer = await post('/api/reading/start', wanted);
    if (!answer.ok) return review.say(answer.error, 'bad');
    await anew(review, study);
  });
}

/** Reopens the study if it is still on screen; its earlier names and images disappear at once.
 * @param {ReviewView} review @param {string | null} study */
async function anew(review, study) {
  if (!study || review.study !== study) return;
  review.leave();
  shownCase.value = null;
  await review.open(study);
}

/** @param {ReviewView} review */
export async function finish(review) {
  const { study } = review;
  const session = await enqueue(async () => {
    const answer = await post('/api/reading/end', {});
    if (!answer.ok) return void review.say(answer.error, 'bad');
    if (review.setup?.trial) {
      // Without an open list nothing of the study is shown or requested.
      review.leave();
      shownCase.value = null;
      return void review.studio.openTab('trials');
    }
    await anew(review, study);
    return answer.session;
  });
  if (session) await showSummary(review, session);
}

/** The line above the worklist: a button to start a session, or the open one's progress. @param {ReviewView} review */
export function sessionBar(review) {
  const element = el('div', { class: 'rv-session' });
  return {
    element,
    show() {
      const { setup, list } = review;
      const { session } = setup || {};
      if (!session) {
        const button = action('Start a reading session', () => begin(review));
        return fill(element, button);
      }
      const { read = 0, total = 0 } = list.counts || {};
      const done = total > 0 && read === total;
      const kind = setup?.trial ? 'Trial' : session.blind ? 'Blind' : 'Session';
      const look = { type: 'button', class: done ? 'main' : '', onclick: () => finish(review) };
      return fill(
        element,
        el('span', { class: 'rv-session-name' }, `${kind}: ${done ? 'all read' : `${total - read} left`}`),
        el('button', look, 'End session'),
      );
    },
  };
}

// The results of a reading session: time per case, agreement, operating point.
/** @param {ReviewView} review @param {number} session */
async function showSummary(review, session) {
  const found = await get(`/api/reading/${session}/summary`);
  if (!found.ok) return review.say(found.error, 'bad');
  const whose = found.session.reader === review.setup?.reader ? 'Your' : `${found.session.reader}’s`;
  const title = 'Report of this session, to print or save as PDF';
  const dialog = sheet('rv-over', [
    el('h2', {}, 'Reading session'),
    figures(found, whose),
    el('p', { class: 'dim' }, against(found)),
    el('menu', {}, [
      action('Report', () => printSession(review, session), { class: 'plain', title }),
      action('Close', () => dialog.close(), { class: 'main' }),
    ]),
  ]);
}
