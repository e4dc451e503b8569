// The audit trail, for administrators: who did what and when, newest first, a page at a time.
import { fetched } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { action, check, el, finder, offer, options, table, tr } from '../../static/dom.js';

const HEADS = ['When (UTC)', 'Who', 'What', 'Case', 'From and to'];

/** @typedef {{at: string, who: string, kind: string, case?: string, case_id?: number, study?: string, before?: unknown,
 *   after?: unknown}} Event_ one row of the trail */

/** Describes a value of an event in a few words: {"decision": "normal", "comment": ""} is "decision normal".
 * @param {unknown} value @returns {string} */
export function words(value) {
  if (value === null || value === undefined || value === '') return '';
  if (Array.isArray(value)) return value.map(words).filter(Boolean).join(', ');
  if (typeof value !== 'object') return String(value);
  const parts = Object.entries(value).map(([key, inner]) => [key, words(inner)]);
  return parts
    .filter(([, text]) => text)
    .map(([key, text]) => `${key} ${text}`)
    .join(', ');
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
  const none = el('p', { class: 'dim', hidden: true }, 'No such events.');
  const filters = [el('label', {}, 'from ', since), el('label', {}, 'to ', until)];
  panel.replaceChildren(
    el('div', { class: 'filters' }, kind, who, filters, allStudies),
    el('div', { class: 'trail' }, trail),
    none,
    older,
  );

  /** @param {Event_} event */
  function row(event) {
    const elsewhere = everywhere.checked ? event.study || '' : '';
    const where = event.case || (event.case_id ? `#${event.case_id}` : elsewhere);
    const cells = [event.at.slice(0, 19).replace('T', ' '), event.who, event.kind, where, change(event)];
    return tr(cells.map((text) => el('td', { title: text }, text)));
  }

  async function load(before = 0) {
    const { study } = studio;
    const asked = new URLSearchParams({
      study: everywhere.checked ? '' : study || '',
      kind: kind.value,
      who: who.value,
      since: since.value,
      until: until.value,
      before: String(before),
    });
    const got = await (await fetched(`/api/audit?${asked}`)).json();
    if (study !== studio.study) return;
    const named = (/** @type {string[]} */ names) => options(names.map((name) => [name, name]));
    offer(kind, el('option', { value: '' }, 'everything'), named(got.kinds));
    offer(who, el('option', { value: '' }, 'everybody'), named(got.people));
    const found = got.events.map(row);
    if (before) rows.append(...found);
    else rows.replaceChildren(...found);
    none.hidden = rows.children.length > 0;
    older.hidden = !got.next;
    last = got.next;
  }

  const show = () => {
    if (!panel.hidden) again();
  };
  $('[data-opens="audit"]').addEventListener('click', show);
  return { show };
}
