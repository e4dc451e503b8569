// The assignment of test cases to readers, and the withdrawal of unread ones.
import { action, check, el, num, options, table, tr } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { form } from './manage_parts.js';

const NONE = 'No readers yet: add them under “Accounts”.';

/** @param {Answers.Assignments} dealt @param {{assign: (readers: string[], perCase: number) =>
 * void, unassign: (reader: string) => void}} on */
export function readersForm({ readers, free, cases }, { assign, unassign }) {
  if (!readers.length) return [el('p', { class: 'dim' }, NONE)];
  const boxes = readers.map((reader) => ({ ...reader, ...check(reader.name) }));
  const ways = options([
    [1, 'one reader'],
    [2, 'two readers (double reading)'],
  ]);
  const twice = el('select', { 'aria-label': 'Readers for each case' }, ways);
  const back = (/** @type {string} */ name) =>
    action('unassign', () => unassign(name), { class: 'link', title: `Unassign the unread cases of ${name}` });
  const rows = boxes.map(({ name, role, assigned, read, read_in_all, label }) =>
    tr([
      label,
      el('td', { class: 'dim' }, role || ''),
      ...[assigned, read, read_in_all].map((n) => num(String(n))),
      assigned > read && back(name),
    ]),
  );
  const heads = ['Reader', '', 'assigned', 'of these read', 'read in all', ''];
  const chosen = () => boxes.filter((b) => b.box.checked).map((b) => b.name);
  const about = `${plural(free, 'test case')} of ${cases} unassigned. Cases are dealt evenly; earlier assignments stay.`;
  const fields = [table(heads, rows), el('label', {}, 'Readers per case ', twice), el('button', {}, 'Assign')];
  return [form(() => assign(chosen(), Number(twice.value)), fields), el('p', { class: 'dim' }, about)];
}
