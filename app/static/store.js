// What is on screen: the page's store. Address, headings, lists and dialogs are functions of it, and of nothing else.
// It is changed by the actions below alone; `openStudy` replaces all that belongs to a study at once.
import { batch, computed, effect, signal } from '@preact/signals';

/** @typedef {import('./answers').Plan} Plan */
/** @template T @typedef {import('@preact/signals').Signal<T>} Signal */

export const started = signal(false); // true once the picker has said which study is open
export const study = signal(/** @type {string | null} */ (null));
export const tab = signal(/** @type {string | null} */ (null)); // null until one was chosen by a click
export const plan = signal(/** @type {Plan | null} */ (null)); // what jobs make for the study; null before it was asked for
/** What the server said last of jobs, sessions and studies. @type {Signal<import('./answers').Status | null>} */
export const status = signal(null);
export const administers = signal(/** @type {boolean | null} */ (null)); // may change what all readers see; null: not known yet
export const lost = signal(false); // nothing has been heard of the server: what is on screen may be old
// Of the study that is open: the case and the run that Review shows, and the run that Training shows.
export const shownCase = signal(/** @type {number | null} */ (null));
export const reading = signal(/** @type {string | null} */ (null));
export const trained = signal(/** @type {string | null} */ (null));
/** How often somebody has pressed a key or a button of the mouse: what was asked for before the last time is not put under their hands. */
export const acts = signal(0);

/** Opens a study: what belonged to the one before goes with it.
 * @param {string | null} id @param {{case?: number | null, run?: string | null, tab?: string | null}} [at] where in it */
export function openStudy(id, at = {}) {
  batch(() => {
    study.value = id;
    plan.value = null;
    shownCase.value = at.case ?? null;
    const inReview = (at.tab ?? tab.peek()) !== 'training';
    reading.value = inReview ? (at.run ?? null) : null;
    trained.value = inReview ? null : (at.run ?? null);
  });
}

/** What an address asks for. @param {string} href */
export function asked(href) {
  const params = new URL(href).searchParams;
  const number = Number(params.get('case'));
  return {
    study: params.get('study'),
    tab: params.get('tab'),
    case: Number.isInteger(number) && number > 0 ? number : null,
    run: params.get('run'),
  };
}

/** The first study of a visit: what the address asks for, where it asks for that of this study. @param {string | null} id @param {string} href */
export function begin(id, href) {
  const address = asked(href);
  const same = !address.study || address.study === id;
  batch(() => {
    openStudy(id, same ? address : {});
    started.value = true;
  });
}

/** The address of what is on screen. @param {string} href the one before, of which other parts stay @returns {string} */
function addressOf(href) {
  const url = new URL(href);
  const open = tab.value ?? url.searchParams.get('tab');
  const run = open === 'training' ? trained.value : open === 'review' ? reading.value : null;
  for (const [key, value] of Object.entries({ study: study.value, tab: open, case: shownCase.value, run })) {
    if (value == null) url.searchParams.delete(key);
    else url.searchParams.set(key, String(value));
  }
  return url.href;
}

let back = false; // the browser's Back or Forward is being followed

/** Follows the browser's Back or Forward: the address is there already. @param {() => void} act */
export function returning(act) {
  back = true;
  act();
  back = false;
}

/** Keeps the browser's address at what is on screen. Another tab or study is an entry of the history, so that Back
 * returns to the one before; a case or a run is not. */
export function followAddress() {
  let before = '';
  effect(() => {
    if (!started.value) return;
    const href = addressOf(location.href);
    const place = `${study.value} ${tab.value}`;
    const enters = before && before !== place;
    before = place;
    if (back || href === location.href) return;
    if (enters) history.pushState(null, '', href);
    else history.replaceState(null, '', href);
  });
}

/**
 * What the server answers for a key of the store. `value` is null until the answer for the key that is there now has
 * come, so that a view never shows one of another study; `error` says why there is none.
 * @template K, T
 */
export class Answered {
  /** @param {() => K | null} key null: there is nothing to ask @param {(key: K) => Promise<T>} ask */
  constructor(key, ask) {
    this.key = computed(key);
    this.ask = ask;
    this.turn = 0;
    /** @type {Signal<{key: K | null, value: T | null, error: string | null}>} */
    this.held = signal({ key: null, value: null, error: null });
    effect(() => {
      this.key.value;
      this.renew();
    });
  }

  get value() {
    return this.#current?.value ?? null;
  }

  get error() {
    return this.#current?.error ?? null;
  }

  /** Asks again; what is there stays until the answer comes. Resolves when it has. */
  async renew() {
    const key = this.key.peek();
    this.turn += 1;
    const mine = this.turn;
    if (key === null) return;
    try {
      const value = await this.ask(key);
      if (mine === this.turn) this.held.value = { key, value, error: null };
    } catch (error) {
      if (mine === this.turn) this.held.value = { key, value: null, error: error.message };
    }
  }

  get #current() {
    const { held, key } = this;
    return held.value.key === key.value && key.value !== null ? held.value : null;
  }
}
