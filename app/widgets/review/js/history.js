// The reader's actions since the page was opened, in order: strokes, mask versions, findings, display, decisions. Undo
// reverts the last one, on any case; redo restores it until there is a new action.
import { el, fill } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { undoOrRedo } from './decisions.js';
import { nameOf } from './reference.js';

/**
 * kind: quick successive actions of one kind are merged (a dragged slider). passing: ends with its case (a window, a
 * turned view). undo, redo: return false if refused, after a message; or words that replace those given.
 * @typedef {{words: string, case?: number, kind?: string, passing?: boolean,
 *   undo: () => unknown, redo: () => unknown}} Act
 * @typedef {Act & {at: number, name: string}} Done
 */

const AT_ONCE = 1200; // milliseconds within which two changes are merged
const MOST = 200;
const LISTED = 12;
export const STROKE = 'a stroke';

export class History {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {Done[]} */
    this.done = [];
    /** @type {Done[]} the action undone last is at the end */
    this.undone = [];
    this.list = el('ol', { class: 'rv-done' });
    this.element = el('details', {}, el('summary', {}, el('h3', {}, 'History')), this.list);
  }

  /** @param {Act} act */
  add(act) {
    const at = performance.now();
    const last = this.done.at(-1);
    const { detail } = this.review;
    if (act.kind && last?.kind === act.kind && at - last.at < AT_ONCE) Object.assign(last, { redo: act.redo, at });
    else this.done.push({ ...act, at, name: detail ? nameOf(this.review, detail) : '' });
    this.done.splice(0, this.done.length - MOST);
    this.undone = [];
    this.reflect();
  }

  /** Records a step of the drawing on screen. */
  stroke() {
    const { detail, editor } = this.review;
    const id = detail?.id || 0;
    const step = (/** @type {() => boolean} */ travel) => async () => {
      await this.at(id);
      return this.review.detail?.id === id && travel();
    };
    this.add({ words: STROKE, case: id, undo: step(() => editor.undo()), redo: step(() => editor.redo()) });
  }

  /** Forgets actions that are no longer valid. @param {(act: Act) => boolean} gone */
  forget(gone = () => true) {
    this.done = this.done.filter((act) => !gone(act));
    this.undone = this.undone.filter((act) => !gone(act));
    this.reflect();
  }

  /** Goes to the case of an action to undo. @param {number} id */
  at(id) {
    return this.review.detail?.id === id ? null : this.review.cases.fetch(id);
  }

  /** @param {'undo' | 'redo'} which @param {number} [times] */
  go(which, times = 1) {
    const { visit } = this.review;
    return this.review.enqueue(async () => {
      for (let i = 0; i < times; i += 1) if (this.review.visit !== visit || !(await this.#one(which))) break;
      this.reflect();
    });
  }

  /** @param {'undo' | 'redo'} which @returns {Promise<unknown>} */
  async #one(which) {
    const { review } = this;
    const { editor } = review;
    if (editor.points.length && which === 'undo') return editor.undo();
    const act = (which === 'undo' ? this.done : this.undone).pop();
    if (!act) {
      // From an earlier visit: the strokes of the open drawing, else the decisions that the studio knows.
      if (editor.mask) return which === 'undo' ? editor.undo() : editor.redo();
      const title = await undoOrRedo(review, which);
      if (title) this.#flash(which, title);
      return title;
    }
    const said = await act[which]();
    if (said === false) return false;
    (which === 'undo' ? this.undone : this.done).push(act); // lists that another case may have replaced meanwhile
    this.#flash(which, typeof said === 'string' ? said : act.words);
    return true;
  }

  /** @param {'undo' | 'redo'} which @param {string} words */
  #flash(which, words) {
    this.review.flash(`${which === 'undo' ? 'Undone' : 'Redone'}: ${words}`, 'unread');
  }

  reflect() {
    const { done, undone } = this;
    const row = (/** @type {Done} */ act, /** @type {'undo' | 'redo'} */ which, times = 1) => dom`
      <li class=${which}>
        <button type="button" title="${which === 'undo' ? 'Undo' : 'Redo'} up to here" onclick=${() => this.go(which, times)}>
          ${act.words}<span class="dim">${act.name}</span>
        </button>
      </li>`;
    const next = undone.slice(-LISTED).map((act, i, all) => row(act, 'redo', all.length - i));
    const past = done.slice(-LISTED).reverse();
    const rows = [...next, ...past.map((act, i) => row(act, 'undo', i + 1))];
    fill(this.list, rows.length ? rows : el('li', { class: 'dim' }, 'Nothing yet.'));
  }
}
