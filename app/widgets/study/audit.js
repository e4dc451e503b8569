// The audit trail, for administrators: who did what and when, newest first, a page at a time.

import { api } from '../../static/api.js';
import { toast } from '../../static/dialogs.js';
import { el } from '../../static/dom.js';

const NAMES = { at: 'When (UTC)', who: 'Who', kind: 'What', case: 'Case', words: 'From and to' };

/** A value of an event in a few words: {"decision": "normal", "comment": ""} is "decision normal". */
export function words(value) {
  if (value === null || value === undefined || value === '') return '';
  if (Array.isArray(value)) return value.map(words).filter(Boolean).join(', ');
  if (typeof value !== 'object') return String(value);
  const parts = Object.entries(value).map(([key, inner]) => [key, words(inner)]);
  return parts.filter(([, text]) => text).map(([key, text]) => `${key} ${text}`).join(', ');
}

/** What changed: "before → after", or the one of them that there is. */
export function change(event) {
  return [words(event.before), words(event.after)].filter(Boolean).join(' → ');
}

export function audit(root, studio) {
  const panel = root.querySelector('.m-audit');
  const button = root.querySelector('[data-opens="audit"]');
  const pick = (label, name) => el('select', { 'aria-label': label, name, onchange: () => load() });
  const day = (label, name) => el('input', { type: 'date', 'aria-label': label, name, onchange: () => load() });
  const kind = pick('What was done', 'kind');
  const who = pick('By whom', 'who');
  const since = day('From', 'since');
  const until = day('To', 'until');
  const everywhere = el('input', { type: 'checkbox', onchange: () => load() });
  const rows = el('tbody');
  const older = el('button', { type: 'button', class: 'link', hidden: true }, 'Older');
  const none = el('p', { class: 'dim', hidden: true }, 'Nothing of this kind was done.');
  panel.replaceChildren(
    el('form', { onsubmit: (event) => event.preventDefault() }, kind, who, el('label', {}, 'from ', since), el('label', {}, 'to ', until),
      el('label', { class: 'check' }, everywhere, 'All studies')),
    el('div', { class: 'trail' }, el('table', {}, el('thead', {}, el('tr', {}, Object.values(NAMES).map((name) => el('th', { scope: 'col' }, name)))), rows)),
    none,
    older,
  );

  function offer(select, all, values) {
    const chosen = select.value;
    select.replaceChildren(el('option', { value: '' }, all), ...values.map((value) => el('option', { value }, value)));
    select.value = values.includes(chosen) ? chosen : '';
  }

  function row(event) {
    const where = event.case || (event.case_id ? `#${event.case_id}` : everywhere.checked ? event.study || '' : '');
    const cells = [event.at.slice(0, 19).replace('T', ' '), event.who, event.kind, where, change(event)];
    return el('tr', {}, cells.map((text, at) => el('td', { class: at === 4 ? 'dim' : null, title: text }, text)));
  }

  async function load(before = 0) {
    const study = studio.study;
    const asked = { study: everywhere.checked ? '' : study, kind: kind.value, who: who.value, since: since.value, until: until.value, before };
    try {
      const got = await api(`/api/audit?${new URLSearchParams(asked)}`);
      if (study !== studio.study) return;
      offer(kind, 'everything', got.kinds);
      offer(who, 'everybody', got.people);
      const found = got.events.map(row);
      if (before) rows.append(...found);
      else rows.replaceChildren(...found);
      none.hidden = rows.children.length > 0;
      older.hidden = !got.next;
      older.onclick = () => load(got.next);
    } catch (error) {
      toast(error.message, 'bad');
    }
  }

  button.addEventListener('click', () => panel.hidden || load());
  return { show: () => panel.hidden || load() };
}
