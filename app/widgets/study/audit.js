// The audit trail, for administrators: who did what and when, newest first, a page at a time.
import { fetched } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { action, check, el, fill, finder, offer, options, table, tr } from '../../static/dom.js';
import { dom } from '../../static/view.js';

const HEADS = ['When (UTC)', 'Who', 'What', 'Case', 'Change'];

/** @typedef {{at: string, who: string, kind: string, case?: string, case_id?: number, study?: string, before?: unknown,
 *   after?: unknown}} Event_ one row of the trail */

/** Describes a value of an event in a few words: {"decision": "normal", "comment": ""} is "decision normal".
 * @param {unknown} value @returns {string} */
export function words(value) {
  if (value === null || value === undefined || value === '') return '';
  if (Array.isArray(value)) return value.map(words).filter(Boolean).join(', ');
  if (typeof value !== 'object') return String(value);
  const parts = Object.entries(value).map(([key, inner]) => [key, words(inner)]);
  return parts.flatMap(([key, text]) => (text ? `${key} ${text}` : [])).join(', ');
}

/** Describes the change: "before → after", or whichever exists. @param {{before?: unknown, after?: unknown}} event */
export const change = (event) => [words(event.before), words(event.after)].filter(Boolean).join(' → ');

/** @param {HTMLElement} root @param {Page.Studio} studio */
export function audit(root, studio) {
  const $ = finder(root);
  const panel = $('.m-audit');
  const again = () => orToast(load());
  const pick = (/** @type {string} */ label) => el('select', { 'aria-label': label, onchange: again });
  const day = (/** @type {string} */ label) => el('input', { type: 'date', 'aria-label': label, onchange: again });
  const kind = pick('What was done');
  const who = pick('By whom');
  const since = day('From');
  const until = day('To');
  const { box: everywhere, label: allStudies } = check('All studies', { onchange: again });
  const trail = table(HEADS, null);
  const [rows] = trail.tBodies;
  let last = 0; // start of the next page
  const older = action('Older', () => orToast(load(last)), { class: 'link', hidden: true });
  const none = el('p', { class: 'dim', hidden: true }, 'No event matches these filters.');
  const filters = dom`<div class="filters">
    ${kind}${who}<label>from ${since}</label><label>to ${until}</label>${allStudies}
  </div>`;
  panel.replaceChildren(filters, el('div', { class: 'trail' }, trail), none, older);

  /** @param {Event_} event */
  function row(event) {
    const elsewhere = everywhere.checked ? event.study || '' : '';
    const where = event.case || (event.case_id ? `#${event.case_id}` : elsewhere);
    const cells = [event.at.slice(0, 19).replace('T', ' '), event.who, event.kind, where, change(event)];
    return tr(cells.map((text) => el('td', { title: text }, text)));
  }

  async function load(before = 0) {
    const { study } = studio;
    const of = everywhere.checked ? '' : study || '';
    const chosen = { kind: kind.value, who: who.value, since: since.value, until: until.value };
    const asked = new URLSearchParams({ study: of, ...chosen, before: String(before) });
    const got = await (await fetched(`/api/audit?${asked}`)).json();
    if (study !== studio.study) return;
    const named = (/** @type {string} */ all, /** @type {string[]} */ names) =>
      options([['', all], ...names.map((name) => /** @type {const} */ ([name, name]))]);
    offer(kind, named('everything', got.kinds));
    offer(who, named('everybody', got.people));
    if (!before) fill(rows);
    rows.append(...got.events.map(row));
    none.hidden = rows.children.length > 0;
    older.hidden = !got.next;
    last = got.next;
  }

  const show = () => panel.hidden || again();
  $('[data-opens="audit"]').addEventListener('click', show);
  return { show };
}
