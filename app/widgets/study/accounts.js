// The accounts of readers, with their progress, and for each a role, a new password, removal.
// The server makes the passwords and sends each once: it is shown until it is dismissed or the page is left.
import { api, questions } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { action, el, fill, num, table, tr, whenLetGo } from '../../static/dom.js';
import { moment } from '../../static/format.js';
import { form } from './manage_parts.js';

const ROLES = /** @type {const} */ (['reader', 'adjudicator', 'administrator']);
const HEADS = ['Name', 'Role', 'assigned', 'of these read', 'read in all', 'last seen', 'tokens', '', ''];
const OF =
  'The numbers are cases of this study. Last seen: the latest decision, or the latest sign-in that was not signed out.';
const how = () => [
  'Sign-in is off: anyone who opens this page may do everything. To use accounts, create the first administrator with ',
  el('code', {}, 'python launch.py reader add NAME --role administrator'),
  ' and open the studio with ',
  el('code', {}, 'python launch.py app --readers'),
  '. Administrators then invite everyone else here.',
];

/** @param {HTMLElement} panel @param {Page.Studio} studio @param {() => Promise<unknown>}
 * changed called after an account is added or removed, or a role changes */
export function accounts(panel, studio, changed) {
  const handed = el('div', { class: 'handed', hidden: true, role: 'status' });
  const list = el('div', { class: 'people' });
  const ask = questions();
  let you = '';

  /** @param {HTMLInputElement} box */
  async function copy(box) {
    box.select();
    // On other machines the page may be served without encryption; browsers then have no clipboard object.
    if (navigator.clipboard) await navigator.clipboard.writeText(box.value);
    else if (!document.execCommand('copy')) throw new Error('Copying failed: press Ctrl+C.');
    toast('Copied.', 'good');
  }
  function putAway() {
    handed.hidden = true;
    handed.replaceChildren();
  }
  /** @param {Answers.NewPassword} made */
  function tell({ name, password }) {
    const label = `Password of ${name}`;
    const box = el('input', {
      type: 'text',
      readonly: true,
      value: password,
      'aria-label': label,
      autocomplete: 'off',
    });
    handed.hidden = false;
    fill(
      handed,
      el('strong', {}, label),
      box,
      action('Copy', () => orToast(copy(box)), { class: 'main' }),
      action('Done', putAway),
      el('p', { class: 'dim' }, `Shown only now. Send it to ${name} privately.`),
    );
    box.select();
  }

  /** @param {Answers.KeptAccount} row @param {string} role */
  async function setRole(row, role) {
    try {
      await api('/api/accounts/set/role', { name: row.name, role });
    } finally {
      // A former administrator has none of these forms.
      if (row.name === you) location.reload();
      else await again();
    }
  }
  /** @param {Answers.KeptAccount} row */
  async function reset(row) {
    const question = `Give ${row.name} a new password? The old one stops working, and ${row.name} is signed out everywhere.`;
    if (!(await confirm(question, `Reset the password of ${row.name}`, 'Keep it', true))) return;
    tell(await api('/api/accounts/set/password', { name: row.name }));
    await again();
  }
  /** @param {Answers.KeptAccount} row */
  async function remove(row) {
    const question =
      `Remove the account of ${row.name}? ${row.name} is signed out everywhere and cannot sign in again. ` +
      'Decisions and marks stay; unread cases can be taken back under “Reading assignments”.';
    if (!(await confirm(question, `Remove “${row.name}”`, 'Keep it', true))) return;
    await api('/api/accounts/set/removed', { name: row.name });
    toast(`${row.name} can no longer sign in.`, 'good');
    await again();
  }

  /** @param {Answers.KeptAccount} row */
  async function revoke(row) {
    const question = `Revoke all tokens of ${row.name}? Programs that use them can no longer sign in.`;
    if (!(await confirm(question, `Revoke the tokens of ${row.name}`, 'Keep them', true))) return;
    await api('/api/accounts/set/tokens', { name: row.name });
    await again();
  }

  /** @param {string} label @param {string} chosen @param {Record<string, unknown>} [more] */
  const roles = (label, chosen, more = {}) =>
    el(
      'select',
      { 'aria-label': label, ...more },
      ROLES.map((value) => el('option', { value, selected: value === chosen }, value)),
    );
  /** @param {Answers.KeptAccount} row */
  function line(row) {
    const only = row.last && 'The last administrator: make another one first';
    const own = row.name === you;
    /** @param {string} text @param {() => Promise<void>} act @param {string | false} why the reason against it */
    const button = (text, act, why) =>
      action(text, () => orToast(act()), {
        class: 'link',
        disabled: Boolean(why),
        title: why,
        'aria-label': `${text} ${row.name}`,
      });
    const role = roles(`Role of ${row.name}`, row.role, {
      disabled: row.last,
      title: only,
      onchange: (/** @type {any} */ { target }) => orToast(setRole(row, target.value)),
    });
    const numbers = [row.assigned, row.read, row.read_in_all];
    return tr([
      [row.name, own && el('span', { class: 'dim' }, ' (you)')],
      role,
      ...numbers.map((n) => num(String(n))),
      el('td', { class: 'dim' }, row.seen ? moment(row.seen) : '–'),
      row.tokens ? button(`Revoke ${row.tokens}`, () => revoke(row), false) : '–',
      button('Reset password', () => reset(row), own && 'Change yours under “Password”, at the top of the page'),
      button('Remove', () => remove(row), only),
    ]);
  }
  function inviting() {
    const name = el('input', {
      type: 'text',
      'aria-label': 'Name',
      maxlength: 64,
      required: true,
      autocomplete: 'off',
    });
    const role = roles('Role', 'reader');
    const send = async () => {
      tell(await api('/api/accounts', { name: name.value, role: role.value }));
      name.value = '';
      role.value = 'reader';
      await again();
    };
    return form(
      () => orToast(send()),
      el('label', {}, 'Name', name),
      el('label', {}, 'Role', role),
      el('button', {}, 'Invite'),
    );
  }

  // Created once: every answer redraws the list, and text typed here meanwhile stays.
  const invitation = inviting();
  panel.replaceChildren(handed, list);

  async function show() {
    const { study } = studio;
    if (!study) return;
    const last = ask();
    const got = await api(`/api/accounts/${encodeURIComponent(study)}`);
    if (study === studio.study) whenLetGo(list, () => last() && draw(got));
  }
  /** @param {Answers.Accounts} got */
  function draw(got) {
    you = got.you;
    if (!got.sign_in) fill(list, el('p', { class: 'dim' }, how()));
    else {
      if (!invitation.isConnected) panel.append(invitation);
      fill(list, table(HEADS, got.accounts.map(line)), el('p', { class: 'dim' }, OF));
    }
  }
  const again = () => Promise.all([show(), changed()]);
  return { show };
}
