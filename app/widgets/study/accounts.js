// The accounts of readers, with their progress, and for each a role, a new password, removal.
// The server makes the passwords and sends each once: it is shown until it is dismissed or the page is left.
import { signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { confirm, orToast, submitted, toast } from '../../static/dialogs.js';
import { moment } from '../../static/format.js';
import { Answered, administers } from '../../static/store.js';
import { button, choices, given, html, tableOf } from '../../static/view.js';
import { open } from './room.js';

const ROLES = choices(['reader', 'adjudicator', 'administrator'].map((role) => [role, role]));
const HEADS = ['Name', 'Role', 'assigned', 'assigned and read', 'read in total', 'last seen', 'tokens', '', ''];
const OF =
  'The numbers are cases of this study. Last seen: the latest decision, or the latest sign-in without a sign-out.';
const HOW = html`<p class="dim">
  Sign-in is off: anyone who opens this page may do everything. To use accounts, create the first
  administrator with <code>python launch.py reader add NAME --role administrator</code> and open
  the studio with <code>python launch.py app --readers</code>. Administrators then invite everyone else here.
</p>`;

export const people = new Answered(
  () => (administers.value ? open() : null),
  (id) => api(`/api/accounts/${encodeURIComponent(id)}`),
);
const fresh = signal(/** @type {Answers.NewPassword | null} */ (null));

/** Shows a password until it is dismissed. @param {{made: Answers.NewPassword}} props */
function Password({ made: { name, password } }) {
  const label = `Password of ${name}`;
  const copy = async (/** @type {HTMLInputElement} */ box) => {
    box.select();
    // On other machines the page may be served without encryption; browsers then have no clipboard object.
    if (navigator.clipboard) await navigator.clipboard.writeText(box.value);
    else if (!document.execCommand('copy')) throw new Error('Copying failed: press Ctrl+C.');
    toast('Copied.', 'good');
  };
  const click = (/** @type {any} */ { target }) => orToast(copy(target.previousElementSibling));
  const select = (/** @type {HTMLInputElement | null} */ box) => box?.select();
  return html`<strong>${label}</strong>
    <input key=${password} ref=${select} type="text" readonly value=${password} aria-label=${label} autocomplete="off" />
    ${button('Copy', click, { class: 'main' })}${button('Done', () => (fresh.value = null))}
    <p class="dim">Shown only now. Send it to ${name} privately.</p>`;
}

/** @param {{row: Answers.KeptAccount, again: () => Promise<unknown>}} props */
function Account({ row: { name, role, last, assigned, read, read_in_all, seen, tokens }, again }) {
  const only = last ? 'The last administrator: make another one first' : null;
  const own = name === people.value?.you ? 'Change yours under “Password”, at the top of the page' : null;
  const away = `${name} is signed out everywhere`;
  async function setRole(/** @type {string} */ role) {
    try {
      await api('/api/accounts/set/role', { name, role });
    } finally {
      // A former administrator has none of these forms.
      if (own) location.reload();
      else await again();
    }
  }
  /** Changes the account after a question. @param {'password' | 'removed' | 'tokens'} what @param {string} question
   * @param {string} yes @param {string} [no] */
  async function set(what, question, yes, no = 'Keep it') {
    if (!(await confirm(question, yes, no, true))) return;
    const made = await api(`/api/accounts/set/${what}`, { name });
    if (what === 'password') fresh.value = made;
    if (what === 'removed') toast(`${name} can no longer sign in.`, 'good');
    await again();
  }
  /** @param {string} text @param {Parameters<typeof set>} change @param {string | null} [why] the reason against it */
  const link = (text, change, why = null) => {
    const look = { class: 'link', disabled: Boolean(why), title: why, 'aria-label': `${text} ${name}` };
    return button(text, () => orToast(set(...change)), look);
  };
  const revoke = `Revoke all tokens of ${name}? Programs that use them can no longer sign in.`;
  const reset = `Give ${name} a new password? The old one stops working, and ${away}.`;
  const remove =
    `Remove the account of ${name}? ${away} and cannot sign in again. ` +
    'Decisions and marks stay; unread cases can be taken back under “Reading assignments”.';
  return html`<tr>
    <td>${name}${own && html`<span class="dim"> (you)</span>`}</td>
    <td><select aria-label="Role of ${name}" value=${role} disabled=${last} title=${only} onChange=${given((role) => orToast(setRole(role)))}>${ROLES}</select></td>
    ${[assigned, read, read_in_all].map((n) => html`<td class="num">${n}</td>`)}
    <td class="dim">${seen ? moment(seen) : '–'}</td>
    <td>${tokens ? link(`Revoke ${tokens}`, ['tokens', revoke, `Revoke the tokens of ${name}`, 'Keep them']) : '–'}</td>
    <td>${link('Reset password', ['password', reset, `Reset the password of ${name}`], own)}</td>
    <td>${link('Remove', ['removed', remove, `Remove “${name}”`], only)}</td>
  </tr>`;
}

/** @param {{changed: () => Promise<unknown>}} props called after an account is added or removed, or a role changes */
export function Accounts({ changed }) {
  const { sign_in, accounts = [] } = people.value || {};
  const again = () => Promise.all([people.renew(), changed()]);
  const rows = accounts.map((row) => html`<${Account} key=${row.name} row=${row} again=${again} />`);
  const invite = submitted(async (data, form) => {
    fresh.value = await api('/api/accounts', Object.fromEntries(data));
    form.reset();
    await again();
  });
  return html`<div class="handed" role="status" hidden=${!fresh.value}>${fresh.value && html`<${Password} made=${fresh.value} />`}</div>
    <div class="people">
      ${sign_in === false && HOW}
      ${sign_in && html`${tableOf(HEADS, rows)}<p class="dim">${OF}</p>`}
    </div>
    ${
      sign_in &&
      html`<form onSubmit=${invite}>
        <label>Name<input type="text" name="name" aria-label="Name" maxlength="64" required autocomplete="off" /></label>
        <label>Role<select name="role" aria-label="Role">${ROLES}</select></label>
        <button>Invite</button>
      </form>`
    }`;
}
