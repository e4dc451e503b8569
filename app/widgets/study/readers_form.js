// Who reads which case: dealing test cases out to readers, and taking back what was not read.
import { el } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { check, form } from './manage_parts.js';

const NONE = 'Nobody has an account and nobody has read: see “Accounts”.';

/**
 * @param {import('../../static/answers').Assignments} dealt
 * @param {{assign: (readers: string[], perCase: number) => void, unassign: (reader: string) => void}} on
 */
export function readersForm({ readers, free, cases }, { assign, unassign }) {
  if (!readers.length) return [el('p', { class: 'dim' }, NONE)];
  const boxes = readers.map((reader) => ({ ...reader, ...check(reader.name) }));
  const twice = el(
    'select',
    { 'aria-label': 'Readers for each case' },
    el('option', { value: 1 }, 'one reader'),
    el('option', { value: 2 }, 'two readers (double reading)'),
  );
  const back = (/** @type {string} */ name) =>
    el(
      'button',
      {
        type: 'button',
        class: 'link',
        title: `Take back what ${name} has not read yet`,
        onclick: () => unassign(name),
      },
      'take back',
    );
  const rows = boxes.map(({ name, role, assigned, read, read_in_all, label }) =>
    el(
      'tr',
      {},
      el('td', {}, label),
      el('td', { class: 'dim' }, role || ''),
      el('td', { class: 'num' }, String(assigned)),
      el('td', { class: 'num' }, String(read)),
      el('td', { class: 'num' }, String(read_in_all)),
      el('td', {}, assigned > read && back(name)),
    ),
  );
  const heads = ['Reader', '', 'assigned', 'of these read', 'read in all', ''].map((text) => el('th', {}, text));
  const chosen = () => boxes.filter((b) => b.box.checked).map((b) => b.name);
  const about =
    `${plural(free, 'test case')} of ${cases} assigned to nobody. Dealing gives each case as many readers as ` +
    'chosen, evenly; what was dealt before stays.';
  return [
    form(
      () => assign(chosen(), Number(twice.value)),
      el('table', {}, el('tr', {}, heads), rows),
      el('label', {}, 'Each case to ', twice),
      el('button', {}, 'Deal out'),
    ),
    el('p', { class: 'dim' }, about),
  ];
}
