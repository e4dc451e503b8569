// The report of a finished reading session, for printing or as a PDF: reader, settings, results, and each case.
import { get } from '../../../static/api.js';
import { el, table, tr } from '../../../static/dom.js';
import { fixed, moment, plural, seconds } from '../../../static/format.js';
import { printed, RESEARCH, row } from './report.js';
import { against, figures } from './session_figures.js';

/** @param {Answers.SessionReport} found */
function about({ session, run, code, ...found }) {
  const how = [
    session.blind ? 'blind first' : 'not blind',
    session.shuffled ? 'shuffled' : 'in the order of the worklist',
    session.neutral ? 'neutral names' : 'names as imported',
  ];
  const made = run && `${run.title}, ${run.name} (${run.id}), ${moment(run.created)}${code ? `, code ${code}` : ''}`;
  return el(
    'table',
    {},
    row('Study', found.study),
    row('Reader', found.reader),
    row('Reading', how.join(', ')),
    row('Cases', `${found.which}: ${plural(found.cases, 'case')}`),
    row('Begun', moment(session.created)),
    row('Ended', moment(session.ended)),
    row('Detector', made || 'none'),
    row('Printed', `${moment(new Date().toISOString())}, version ${found.version}`),
  );
}

/** @param {Answers.SheetRow} one */
function cells({ name, first, decision, seconds: took, percentile, flagged }) {
  const said = first !== decision ? `${first}, then ${decision}` : decision || 'not read';
  const reading = percentile == null ? '–' : `${fixed(percentile, 1)} %`;
  const values = [name, said, seconds(took), flagged == null ? reading : `${reading}${flagged ? ', flagged' : ''}`];
  return tr(values);
}

/** @param {ReviewView} review @param {number} session */
export async function printSession(review, session) {
  const found = await get(`/api/reading/${session}/report`);
  if (!found.ok) return review.say(found.error, 'bad');
  const heads = ['Case', 'Decision', 'Time', 'Detector’s reading'];
  const sheet = el(
    'article',
    { class: 'rv-report' },
    el('h1', {}, `Reading session ${found.session.id}`),
    about(found),
    el('h2', {}, 'Result'),
    figures(found, 'Reader’s'),
    el('p', {}, against(found)),
    el('h2', {}, 'Cases'),
    table(heads, found.rows.map(cells), { class: 'rv-report-cases' }),
    el('p', { class: 'rv-report-research' }, RESEARCH),
  );
  return printed(sheet);
}
