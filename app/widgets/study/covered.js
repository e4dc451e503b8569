// While a study is read blind in an open session, its tab shows no name and no label: a word, and a way to end the session.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { el, fill } from '../../static/dom.js';

/** @typedef {import('../../static/answers').Status['reading']} Standing */

/**
 * @param {HTMLElement} box what stands there instead of the study
 * @param {import('../../static/types').Studio} studio
 * @param {() => void} changed called when a session has begun or ended
 */
export function cover(box, studio, changed) {
  const ended = async () => {
    await api('/api/reading/end', {});
    toast('The session has ended; its summary is in Review.', 'good');
    changed();
  };
  fill(
    box,
    el('h2', {}, 'A blind session is open'),
    el('p', {}, 'What this study holds would reveal the labels. It is shown again when the session has ended.'),
    el(
      'div',
      {},
      el('button', { type: 'button', class: 'main', onclick: () => studio.openTab('review') }, 'Go on reading'),
      el('button', { type: 'button', onclick: () => orToast(ended()) }, 'End the session'),
    ),
  );
  /** @type {boolean | null} */
  let covered = null;
  const covers = (/** @type {Standing} */ { blind, session }) =>
    session?.study === studio.study && blind.includes(studio.study || '');
  studio.on('status', (/** @type {import('../../static/answers').Status} */ { reading }) => {
    if (covered !== null && covers(reading) !== covered) changed();
  });
  /** Whether the study is covered now; asked of the studio. @returns {Promise<boolean>} */
  return async () => {
    covered = covers((await api('/api/status')).reading);
    box.hidden = !covered;
    return covered;
  };
}
