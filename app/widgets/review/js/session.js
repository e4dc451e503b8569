// Reading sessions: start one, show its progress, end it with its summary and a report for the printer.
import { enqueue, get, post } from '../../../static/api.js';
import { asked, sheet } from '../../../static/dialogs.js';
import { action, check, el, num, options, table, tr } from '../../../static/dom.js';
import { fixed, moment, percent, plural, seconds, shareOf } from '../../../static/format.js';
import { shownCase } from '../../../static/store.js';
import { button, dom, html } from '../../../static/view.js';
import { printed, row } from './report.js';

/** @param {string} text @param {string} note */
const choice = (text, note) => check(dom`<span>${text}<small>${note}</small></span>`, { checked: true });

/** Asks for the session's contents and starts it. @param {ReviewView} review */
async function begin(review) {
  const { study } = review;
  const found = await get('/api/reading', { study });
  if (!found.ok) return review.say(found.error, 'bad');
  const choices = found.choices.map(({ name, title, cases }) =>
    el('option', { value: name, disabled: !cases }, `${title} (${cases})`),
  );
  const blind = choice('Blind first', 'Score, heat map and mask are shown after your first decision.');
  const shuffled = choice('Shuffled', 'In random order; otherwise in the order of the worklist.');
  const neutral = choice('Neutral names', 'Random names, new in each session.');
  const follow = () => {
    // In a blind session neither order nor names reveal a label.
    for (const { box } of [shuffled, neutral]) {
      if (blind.box.checked) box.checked = true;
      box.disabled = blind.box.checked;
    }
  };
  blind.box.onchange = follow;
  blind.box.disabled = found.blind;
  if (found.blind) blind.label.title = 'An administrator has made this a blind study';
  follow();
  const over = found.over.map(({ id, cases, blind: hidden, created, reader }) => {
    const whose = reader === review.setup?.reader ? '' : `, ${reader}`;
    const words = `${moment(created)}, ${plural(cases, 'case')}${hidden ? ', blind' : ''}${whose}`;
    return /** @type {const} */ ([id, words]);
  });
  const summary = (/** @type {any} */ { target }) => target.value && showSummary(review, Number(target.value));
  const wanted = await asked({
    content: dom`<h2>Start a reading session</h2>
      <div class="rv-ask">
        <label>Which cases<select name="choice" aria-label="Which cases">${choices}</select></label>
        <label>How many<input type="number" name="count" min="1" aria-label="How many" placeholder="all" /></label>
      </div>
      ${blind.label}${shuffled.label}${neutral.label}
      ${
        over.length > 0 &&
        dom`<select aria-label="Earlier sessions" onchange=${summary}>
        ${options([['', 'Summary of an earlier session …'], ...over])}
      </select>`
      }`,
    answer: (given) => ({
      study,
      choice: given.get('choice'),
      count: Number(given.get('count')),
      blind: blind.box.checked,
      shuffled: shuffled.box.checked,
      neutral: neutral.box.checked,
    }),
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
async function finish(review) {
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

/** The line above the worklist: a button to start a session, or the open one's progress. @param {{list: ReviewView['list']}} props */
export function SessionBar({ list }) {
  list.changes.value;
  const { review } = list;
  const { setup } = review;
  const { session } = setup || {};
  if (!session) return button('Start a reading session', () => begin(review));
  const { read = 0, total = 0 } = list.counts || {};
  const done = total > 0 && read === total;
  const kind = setup?.trial ? 'Trial' : session.blind ? 'Blind' : 'Session';
  return html`<span class="rv-session-name">${kind}: ${done ? 'all read' : `${total - read} left`}</span>
    ${button('End session', () => finish(review), { class: done ? 'main' : '' })}`;
}

// The results of a reading session: time per case, agreement, operating point.
/** @param {ReviewView} review @param {number} session */
async function showSummary(review, session) {
  const found = await get(`/api/reading/${session}/summary`);
  if (!found.ok) return review.say(found.error, 'bad');
  const whose = found.session.reader === review.setup?.reader ? 'Your' : `${found.session.reader}’s`;
  const title = 'Report of this session, to print or save as PDF';
  const content = dom`<h2>Reading session</h2>
    ${figures(found, whose)}
    <p class="dim">${against(found)}</p>
    <menu>
      ${action('Report', () => printSession(review, session), { class: 'plain', title })}
      ${action('Close', () => dialog.close(), { class: 'main' })}
    </menu>`;
  const dialog = sheet('rv-over', content);
}

// The figures of a session, on screen and in print.
/** @param {Answers.Share} share */
const range = ({ value, low, high, hits, n }) =>
  value == null ? '–' : `${percent(value)} (${percent(low)} to ${percent(high)}; ${hits} of ${n})`;

/** @param {string} name @param {Page.Child} value @param {string} [note] */
const figure = (name, value, note = '') =>
  tr([el('th', {}, name), num([value, note && el('small', { class: 'dim' }, ` ${note}`)])]);

/** @param {Answers.SessionSummary} s @param {string} [whose] of the reader's figures */
function figures(s, whose = 'Your') {
  const { normal, abnormal, unsure } = s.decisions;
  const { session, seconds: took, point, detector } = s;
  const kappa = (/** @type {Answers.SessionSummary['agreement'][number]} */ a) =>
    a.kappa == null ? '' : `kappa ${fixed(a.kappa, 2)} (${fixed(a.low, 2)} to ${fixed(a.high, 2)}), `;
  const half = took && `median; half take ${seconds(took.low)} to ${seconds(took.high)}`;
  const rows = [
    figure(
      'Read',
      `${s.read} of ${plural(s.cases, 'case')}`,
      `${normal} normal, ${abnormal} abnormal, ${unsure} unsure`,
    ),
    took && figure('Time per case', seconds(took.median), half || ''),
    took && figure('Total time', seconds(took.total)),
    Boolean(session.blind) && figure('Changed after seeing the AI result', plural(s.changed, 'case')),
    point && figure(`${whose} sensitivity`, range(point.sensitivity)),
    point && figure(`${whose} specificity`, range(point.specificity)),
    detector && figure('Detector’s sensitivity', range(detector.sensitivity), 'same cases'),
    detector && figure('Detector’s specificity', range(detector.specificity), 'same cases'),
    ...s.agreement
      .filter(({ n }) => n > 0)
      .map((a) => figure(`Agreement with ${a.with}`, shareOf(a.agreement, a.n), `${kappa(a)}${a.n} cases`)),
  ];
  return el('table', { class: 'rv-summary' }, rows);
}

/** Describes the reference of the figures. @param {Answers.SessionSummary} s */
const against = (s) =>
  s.point
    ? 'Against the imported labels, by last decisions; “unsure” counts as neither. 95 % Wilson intervals.'
    : 'No labels to compare with.';

// The report for printing or as a PDF: reader, settings, results, and each case.
/** @param {Answers.SessionReport} found */
function about({ session, run, code, ...found }) {
  const how = [
    session.blind ? 'blind first' : 'not blind',
    session.shuffled ? 'shuffled' : 'in the order of the worklist',
    session.neutral ? 'neutral names' : 'names as imported',
  ];
  const made = run && `${run.title}, ${run.name} (${run.id}), ${moment(run.created)}${code ? `, code ${code}` : ''}`;
  return dom`<table>
    ${row('Study', found.study)}
    ${row('Reader', found.reader)}
    ${row('Reading', how.join(', '))}
    ${row('Cases', `${found.which}: ${plural(found.cases, 'case')}`)}
    ${row('Begun', moment(session.created))}
    ${row('Ended', moment(session.ended))}
    ${row('Detector', made || 'none')}
    ${row('Printed', `${moment(new Date().toISOString())}, version ${found.version}`)}
  </table>`;
}

/** @param {Answers.SheetRow} one */
function cells({ name, first, decision, seconds: took, percentile, flagged }) {
  const said = first !== decision ? `${first}, then ${decision}` : decision || 'not read';
  const reading = percentile == null ? '–' : `${fixed(percentile, 1)} %`;
  const values = [name, said, seconds(took), flagged == null ? reading : `${reading}${flagged ? ', flagged' : ''}`];
  return tr(values);
}

/** @param {ReviewView} review @param {number} session */
async function printSession(review, session) {
  const found = await get(`/api/reading/${session}/report`);
  if (!found.ok) return review.say(found.error, 'bad');
  const heads = ['Case', 'Decision', 'Time', 'Detector’s reading'];
  const content = dom`${about(found)}
    <h2>Result</h2>
    ${figures(found, 'Reader’s')}
    <p>${against(found)}</p>
    <h2>Cases</h2>
    ${table(heads, found.rows.map(cells), { class: 'rv-report-cases' })}`;
  return printed(`Reading session ${found.session.id}`, content);
}
