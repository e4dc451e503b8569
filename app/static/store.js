// The page's store: what is on screen. Address, headings, lists and dialogs depend only on it. Only the actions below
// change it; `openStudy` replaces everything that belongs to a study at once.
import { batch, computed, effect, signal, untracked } from '@preact/signals';
import { api } from './api.js';

/** @template T @typedef {import('@preact/signals').Signal<T>} Signal */

export const started = signal(false); // true once the picker has named the open study
export const study = signal(/** @type {string | null} */ (null));
export const tab = signal(/** @type {string | null} */ (null)); // null until one is chosen by a click
export const plan = signal(/** @type {Answers.Plan | null} */ (null)); // the jobs of the study; null before they are fetched
/** The server's latest status of jobs, sessions and studies. @type {Signal<Answers.Status | null>} */
export const status = signal(null);
export const administers = signal(/** @type {boolean | null} */ (null)); // may change settings for all; null: unknown
export const lost = signal(false); // the server is silent: the screen may be out of date
// In the open study: the case and the run in Review, and the run in Training.
export const shownCase = signal(/** @type {number | null} */ (null));
export const reading = signal(/** @type {string | null} */ (null));
export const trained = signal(/** @type {string | null} */ (null));
/** Settings that MedMix hands over to Training. @type {Signal<{strong: string, config: Values, weak: Values, preset: string} | null>} */
export const handed = signal(null);
/** Counts key presses and mouse clicks: an answer requested before the latest one must not change the screen under the reader's hands. */
export const acts = signal(0);

/** Opens a study; everything of the previous one is dropped.
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

/** Parses what an address asks for. @param {string} href */
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

/** Opens a visit's first study, as the address asks if it names that study. @param {string | null} id @param {string} href */
export function begin(id, href) {
  const address = asked(href);
  const same = !address.study || address.study === id;
  batch(() => {
    openStudy(id, same ? address : {});
    started.value = true;
  });
}

/** Returns the address of the screen. @param {string} href the previous one, whose other parts stay @returns {string} */
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

let back = false; // while following the browser's Back or Forward

/** Follows the browser's Back or Forward: the address has already changed. @param {() => void} act */
export function returning(act) {
  back = true;
  act();
  back = false;
}

/** Keeps the browser's address up to date. Another tab or study adds an entry to the history, so that Back returns to
 * the previous one; a case or a run does not. */
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
 * The server's answer for a key of the store. `value` is null until the answer for the current key has arrived, so
 * that a view never shows another study's; `error` says why there is none.
 * @template K, T
 */
export class Answered {
  /** @param {() => K | null} key null: there is nothing to fetch @param {(key: K) => Promise<T>} ask the usual: the key
   * is a path of the server's */
  constructor(key, ask = /** @type {any} */ (api)) {
    this.key = computed(key);
    this.ask = ask;
    this.turn = 0;
    /** @type {Signal<{key: K | null, value: T | null, error: string | null}>} */
    this.held = signal({ key: null, value: null, error: null });
    effect(() => {
      this.key.value;
      untracked(() => this.renew()); // what the question reads is no reason to ask again
    });
  }

  get value() {
    return this.#current?.value ?? null;
  }

  get error() {
    return this.#current?.error ?? null;
  }

  /** Fetches again; the old answer to the key stays until a new one arrives. Resolves when it is settled. */
  async renew() {
    const key = this.key.peek();
    this.turn += 1;
    const mine = this.turn;
    if (key === null) return;
    try {
      const value = await this.ask(key);
      if (mine === this.turn) this.held.value = { key, value, error: null };
    } catch ({ message }) {
      if (mine === this.turn) this.held.value = { key, value: this.#current?.value ?? null, error: message };
    }
  }

  get #current() {
    const { held, key } = this;
    return held.value.key === key.value && key.value !== null ? held.value : null;
  }
}

/** The kind of image of the open study, as confirmed, with the matching presets of MedMix and the lesion head. */
export const fitting = new Answered(
  () => (started.value ? study.value : null),
  (id) => api(`/api/study/${encodeURIComponent(id)}/kind`),
);
