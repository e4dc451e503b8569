// The audit trail, for administrators: who did what and when, newest first, a page at a time.
import { effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { Answered } from '../../static/store.js';
import { choices, html, tableOf } from '../../static/view.js';
import { open, openPanel } from './room.js';

const HEADS = ['When (UTC)', 'Who', 'What', 'Case', 'Change'];

const filters = signal({ kind: '', who: '', since: '', until: '', everywhere: false });

/** Fetches a page of the trail. @param {string} query @param {number} before the number of an event; 0: the newest page */
const page = (query, before) => api(`/api/audit?${query}&before=${before}`);
const newest = new Answered(
  () => {
    const { everywhere, ...chosen } = filters.value;
    const shown = openPanel.value === 'audit' && open();
    return shown ? String(new URLSearchParams({ study: everywhere ? '' : shown, ...chosen })) : null;
  },
  (query) => page(query, 0),
);
const older = signal(/** @type {Answers.Trail[]} */ ([]));
effect(() => {
  newest.value; // a new answer starts at its first page
  older.value = [];
});

/** Describes a value of an event in a few words: {"decision": "normal", "comment": ""} is "decision normal".
 * @param {unknown} value @returns {string} */
function words(value) {
  if (value === null || value === undefined || value === '') return '';
  if (Array.isArray(value)) return value.map(words).filter(Boolean).join(', ');
  if (typeof value !== 'object') return String(value);
  const parts = Object.entries(value).map(([key, inner]) => [key, words(inner)]);
  return parts.flatMap(([key, text]) => (text ? `${key} ${text}` : [])).join(', ');
}

/** Describes the change: "before → after", or whichever exists. @param {{before?: unknown, after?: unknown}} event */
const change = (event) => [words(event.before), words(event.after)].filter(Boolean).join(' → ');

/** @param {Answers.Event} event */
function row(event) {
  const elsewhere = filters.value.everywhere ? event.study : '';
  const where = event.case || (event.case_id ? `#${event.case_id}` : elsewhere);
  const cells = [event.at.slice(0, 19).replace('T', ' '), event.who, event.kind, where, change(event)];
  return html`<tr>${cells.map((text) => html`<td title=${text}>${text}</td>`)}</tr>`;
}

export function Trail() {
  const first = newest.value;
  const { kinds, people } = newest.held.value.value || {}; // those of the previous filters until an answer arrives
  const pages = first ? [first, ...older.value] : [];
  const rows = pages.flatMap((one) => one.events.map(row));
  const next = pages.at(-1)?.next;
  const more = async () => {
    const query = newest.key.peek();
    const got = await page(query || '', Number(next));
    if (query === newest.key.peek()) older.value = [...older.peek(), got];
  };
  const set = (/** @type {any} */ { target }) => {
    const { name, type, checked, value } = target;
    filters.value = { ...filters.peek(), [name]: type === 'checkbox' ? checked : value };
  };
  /** @param {string} name @param {string} label @param {string} all @param {string[]} [names] */
  const menu = (name, label, all, names = []) =>
    html`<select name=${name} aria-label=${label} onChange=${set}>
      ${choices([['', all], ...names.map((text) => [text, text])])}
    </select>`;
  const day = (/** @type {string} */ name, /** @type {string} */ label) =>
    html`<label>${label.toLowerCase()} <input type="date" name=${name} aria-label=${label} onChange=${set} /></label>`;
  return html`<div class="filters">
      ${menu('kind', 'What was done', 'everything', kinds)}${menu('who', 'By whom', 'everybody', people)}
      ${day('since', 'From')}${day('until', 'To')}
      <label class="check"><input type="checkbox" name="everywhere" onChange=${set} />All studies</label>
    </div>
    <div class="trail">${tableOf(HEADS, rows)}</div>
    <p class="dim" hidden=${!first || rows.length}>No event matches these filters.</p>
    <button type="button" class="link" hidden=${!next} onClick=${() => orToast(more())}>Older</button>`;
}
