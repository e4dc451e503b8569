// The accounts of readers, with their progress, and for each a role, a new password, removal.
// The server makes the passwords and sends each once: it is shown until it is dismissed or the page is left.
import { signal } from '@preact/signals';
import { api, questions } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { moment } from '../../static/format.js';
import { html, show as render } from '../../static/view.js';

const ROLES = ['reader', 'adjudicator', 'administrator'].map((role) => html`<option value=${role}>${role}</option>`);
const HEADS = ['Name', 'Role', 'assigned', 'assigned and read', 'read in total', 'last seen', 'tokens', '', ''];
const OF =
  'The numbers are cases of this study. Last seen: the latest decision, or the latest sign-in without a sign-out.';
const HOW = html`<p class="dim">
  Sign-in is off: anyone who opens this page may do everything. To use accounts, create the first
  administrator with <code>python launch.py reader add NAME --role administrator</code> and open
  the studio with <code>python launch.py app --readers</code>. Administrators then invite everyone else here.
</p>`;
const select = (/** @type {HTMLInputElement | null} */ box) => box?.select();

/** Copies the password of the box before a button. @param {HTMLInputElement} box */
async function copy(box) {
  box.select();
  // On other machines the page may be served without encryption; browsers then have no clipboard object.
  if (navigator.clipboard) await navigator.clipboard.writeText(box.value);
  else if (!document.execCommand('copy')) throw new Error('Copying failed: press Ctrl+C.');
  toast('Copied.', 'good');
}

/** @param {HTMLElement} panel @param {Page.Studio} studio @param {() => Promise<unknown>} changed called after an
 * account is added or removed, or a role changes */
export function accounts(panel, studio, changed) {
  const got = signal(/** @type {Answers.Accounts | null} */ (null));
  const given = signal(/** @type {Answers.NewPassword | null} */ (null));
  const ask = questions();

  async function show() {
    const { study } = studio;
    if (!study) return;
    const last = ask();
    const answer = await api(`/api/accounts/${encodeURIComponent(study)}`);
    if (study === studio.study && last()) got.value = answer;
  }
  const again = () => Promise.all([show(), changed()]);

  /** @param {string} name @param {string} role */
  async function setRole(name, role) {
    try {
      await api('/api/accounts/set/role', { name, role });
    } finally {
      // A former administrator has none of these forms.
      if (name === got.value?.you) location.reload();
      else await again();
    }
  }
  /** Changes an account after a question. @param {string} name @param {'password' | 'removed' | 'tokens'} what
   * @param {string} question @param {string} yes @param {string} [no] */
  async function set(name, what, question, yes, no = 'Keep it') {
    if (!(await confirm(question, yes, no, true))) return;
    const made = await api(`/api/accounts/set/${what}`, { name });
    if (what === 'password') given.value = made;
    if (what === 'removed') toast(`${name} can no longer sign in.`, 'good');
    await again();
  }
  /** @param {HTMLFormElement} form */
  async function invite(form) {
    given.value = await api('/api/accounts', Object.fromEntries(new FormData(form)));
    form.reset();
    await again();
  }

  /** @param {Answers.KeptAccount} row */
  function line({ name, role, last, assigned, read, read_in_all, seen, tokens }) {
    const only = last ? 'The last administrator: make another one first' : null;
    const own = name === got.value?.you ? 'Change yours under “Password”, at the top of the page' : null;
    const away = `${name} is signed out everywhere`;
    /** @param {string} text @param {() => Promise<void>} act @param {string | null} [why] the reason against it */
    const button = (
      text,
      act,
      why = null,
    ) => html`<button type="button" class="link" disabled=${Boolean(why)} title=${why}
      aria-label="${text} ${name}" onClick=${() => orToast(act())}>${text}</button>`;
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
    const choose = (/** @type {any} */ { target }) => orToast(setRole(name, target.value));
    return html`<tr key=${name}>
      <td>${name}${own && html`<span class="dim"> (you)</span>`}</td>
      <td><select aria-label="Role of ${name}" value=${role} disabled=${last} title=${only} onChange=${choose}>${ROLES}</select></td>
      ${[assigned, read, read_in_all].map((n) => html`<td class="num">${n}</td>`)}
      <td class="dim">${seen ? moment(seen) : '–'}</td>
      <td>${tokens ? button(`Revoke ${tokens}`, revoke) : '–'}</td>
      <td>${button('Reset password', reset, own)}</td>
      <td>${button('Remove', remove, only)}</td>
    </tr>`;
  }

  /** @param {Answers.NewPassword} made */
  const handed = ({ name, password }) => {
    const label = `Password of ${name}`;
    const click = (/** @type {any} */ { target }) => orToast(copy(target.previousElementSibling));
    return html`<strong>${label}</strong>
      <input key=${password} ref=${select} type="text" readonly value=${password} aria-label=${label} autocomplete="off" />
      <button type="button" class="main" onClick=${click}>Copy</button>
      <button type="button" onClick=${() => (given.value = null)}>Done</button>
      <p class="dim">Shown only now. Send it to ${name} privately.</p>`;
  };
  const send = (/** @type {any} */ event) => {
    event.preventDefault();
    orToast(invite(event.target));
  };
  function People() {
    const { sign_in, accounts = [] } = got.value || {};
    return html`<div class="handed" role="status" hidden=${!given.value}>${given.value && handed(given.value)}</div>
      <div class="people">
        ${sign_in === false && HOW}
        ${
          sign_in &&
          html`<table>
            <thead><tr>${HEADS.map((words) => html`<th scope="col">${words}</th>`)}</tr></thead>
            <tbody>${accounts.map(line)}</tbody>
          </table>
          <p class="dim">${OF}</p>`
        }
      </div>
      ${
        sign_in &&
        html`<form onSubmit=${send}>
          <label>Name<input type="text" name="name" aria-label="Name" maxlength="64" required autocomplete="off" /></label>
          <label>Role<select name="role" aria-label="Role">${ROLES}</select></label>
          <button>Invite</button>
        </form>`
      }`;
  }
  render(panel, People);
  return { show };
}
