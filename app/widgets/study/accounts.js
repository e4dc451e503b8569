// The accounts of readers, with their progress, and for each a role, a new password, removal.
// The server makes the passwords and sends each once: it is shown until it is dismissed or the page is left.
import { api, questions } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { action, el, fill, num, options, table, tr, whenLetGo } from '../../static/dom.js';
import { moment } from '../../static/format.js';
import { dom } from '../../static/view.js';
import { form } from './manage_forms.js';

const ROLES = ['reader', 'adjudicator', 'administrator'];
const HEADS = ['Name', 'Role', 'assigned', 'of these read', 'read in all', 'last seen', 'tokens', '', ''];
const OF =
  'The numbers are cases of this study. Last seen: the latest decision, or the latest sign-in that was not signed out.';

const how = () => dom`<p class="dim">
  Sign-in is off: anyone who opens this page may do everything. To use accounts, create the first
  administrator with <code>python launch.py reader add NAME --role administrator</code> and open
  the studio with <code>python launch.py app --readers</code>. Administrators then invite everyone else here.
</p>`;

/** @param {HTMLElement} panel @param {Page.Studio} studio @param {() => Promise<unknown>} changed called after an
 * account is added or removed, or a role changes */
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
  /** @param {Answers.NewPassword} made */
  function tell({ name, password }) {
    const label = `Password of ${name}`;
    const box = dom`<input type="text" readonly value=${password} aria-label=${label} autocomplete="off" />`;
    const parts = dom`<strong>${label}</strong>${box}
      <button type="button" class="main" onclick=${() => orToast(copy(box))}>Copy</button>
      <button type="button" onclick=${() => (fill(handed).hidden = true)}>Done</button>
      <p class="dim">Shown only now. Send it to ${name} privately.</p>`;
    fill(handed, parts).hidden = false;
    box.select();
  }

  /** @param {string} name @param {string} role */
  async function setRole(name, role) {
    try {
      await api('/api/accounts/set/role', { name, role });
    } finally {
      // A former administrator has none of these forms.
      if (name === you) location.reload();
      else await again();
    }
  }
  /** Changes an account after a question. @param {string} name @param {'password' | 'removed' | 'tokens'} what
   * @param {string} question @param {string} yes @param {string} [no] */
  async function set(name, what, question, yes, no = 'Keep it') {
    if (!(await confirm(question, yes, no, true))) return;
    const made = await api(`/api/accounts/set/${what}`, { name });
    if (what === 'password') tell(made);
    if (what === 'removed') toast(`${name} can no longer sign in.`, 'good');
    await again();
  }

  /** @param {string} label @param {string} chosen @param {Page.Attributes} [more] */
  function roles(label, chosen, more = {}) {
    const menu = el('select', { 'aria-label': label, ...more }, options(ROLES.map((role) => [role, role])));
    menu.value = chosen;
    return menu;
  }
  /** @param {Answers.KeptAccount} row */
  function line({ name, last, ...row }) {
    const only = last && 'The last administrator: make another one first';
    const own = name === you;
    const away = `${name} is signed out everywhere`;
    /** @param {string} text @param {() => Promise<void>} act @param {string | false} why the reason against it */
    const button = (text, act, why) => {
      const look = { class: 'link', disabled: Boolean(why), title: why, 'aria-label': `${text} ${name}` };
      return action(text, () => orToast(act()), look);
    };
    const role = roles(`Role of ${name}`, row.role, { disabled: last, title: only });
    role.onchange = () => orToast(setRole(name, role.value));
    const revoke = () => {
      const question = `Revoke all tokens of ${name}? Programs that use them can no longer sign in.`;
      return set(name, 'tokens', question, `Revoke the tokens of ${name}`, 'Keep them');
    };
    const reset = () => {
      const question = `Give ${name} a new password? The old one stops working, and ${away}.`;
      return set(name, 'password', question, `Reset the password of ${name}`);
    };
    const remove = () => {
      const rest = 'Decisions and marks stay; unread cases can be taken back under “Reading assignments”.';
      const question = `Remove the account of ${name}? ${away} and cannot sign in again. ${rest}`;
      return set(name, 'removed', question, `Remove “${name}”`);
    };
    return tr([
      [name, own && el('span', { class: 'dim' }, ' (you)')],
      role,
      ...[row.assigned, row.read, row.read_in_all].map((n) => num(String(n))),
      el('td', { class: 'dim' }, row.seen ? moment(row.seen) : '–'),
      row.tokens ? button(`Revoke ${row.tokens}`, revoke, false) : '–',
      button('Reset password', reset, own && 'Change yours under “Password”, at the top of the page'),
      button('Remove', remove, only),
    ]);
  }
  function inviting() {
    const name = dom`<input type="text" aria-label="Name" maxlength="64" required autocomplete="off" />`;
    const role = roles('Role', 'reader');
    const send = async () => {
      tell(await api('/api/accounts', { name: name.value, role: role.value }));
      name.value = '';
      role.value = 'reader';
      await again();
    };
    const fields = dom`<label>Name${name}</label><label>Role${role}</label><button>Invite</button>`;
    return form(() => orToast(send()), fields);
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
    if (got.sign_in) {
      if (!invitation.isConnected) panel.append(invitation);
      fill(list, table(HEADS, got.accounts.map(line)), el('p', { class: 'dim' }, OF));
    } else fill(list, how());
  }
  const again = () => Promise.all([show(), changed()]);
  return { show };
}
