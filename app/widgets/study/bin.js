// The bin: runs and studies that were removed within the last week, each with its way back.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { el, fill } from '../../static/dom.js';

/** @typedef {import('../../static/answers').Binned} Binned */

/** @param {HTMLElement} panel @param {(row: Binned) => unknown} restored what follows when something is back */
export function bin(panel, restored) {
  /** @param {Binned} row */
  const back = async (row) => {
    await api(`/api/bin/${row.kind}/${encodeURIComponent(row.id)}/restore`, {});
    toast(`“${row.name}” is back.`, 'good');
    restored(row);
    await show();
  };
  /** @param {Binned} row */
  const line = (row) =>
    el(
      'li',
      {},
      `${row.kind === 'run' ? `Run “${row.name}” of ${row.study}` : `Study “${row.name}”`}, until ${row.until.slice(0, 10)} `,
      el('button', { type: 'button', class: 'link', onclick: () => orToast(back(row)) }, 'Bring back'),
    );
  async function show() {
    const { rows, days } = await api('/api/bin');
    panel.hidden = !rows.length;
    const note = `What was removed stays here for ${days} days.`;
    fill(panel, el('h3', {}, 'Bin'), el('p', { class: 'dim' }, note), el('ul', {}, rows.map(line)));
  }
  return { show: () => show().catch(() => {}) }; // a blind reader has none
}
