// The page's own script: the open study and tab, and events between the widgets. The studio's messages come from events.js.
import { effect } from '@preact/signals';
import { api, askFirst, close, questions } from './api.js';
import { toast } from './dialogs.js';
import * as events from './events.js';
import { followPlan } from './plan.js';
import * as store from './store.js';

/** @type {Record<string, Set<(detail: any) => void>>} */
const listeners = {};
/** @type {string | null} the last known list of studies */
let known = null;
/** @type {ReturnType<typeof store.asked> | null} the target of Back or Forward, until its study is open */
let awaited = null;
/** @type {(text: string) => void} selects a study in Gradio's picker; set by `bridge` */
let choose = () => {};

// In a narrow window Gradio moves the last tabs into a menu, where they are only identified by their text.
const MENU = '#rooms > .tab-wrapper .overflow-dropdown button';
/** @param {Element} button */
const tabOf = ({ id, textContent }) => /^tab-(\w+)-button$/.exec(id)?.[1] || (textContent || '').trim().toLowerCase();

/** Shows something in a tab, and tells it. @template T @param {string} tab @param {string} event
 * @param {import('@preact/signals').Signal<T>} shown @param {T} id */
function enter(tab, event, shown, id) {
  shown.value = id;
  Studio.openTab(tab);
  Studio.emit(event, id);
}

/** What every widget is mounted with. */
export const Studio = {
  get study() {
    return store.study.value;
  },
  get tab() {
    return store.tab.value;
  },
  get started() {
    return store.started.value;
  },
  importing: false,
  byHand: false,

  /** Returns a function that stops listening. @param {string} event @param {(detail: any) => void} fn */
  on(event, fn) {
    (listeners[event] ||= new Set()).add(fn);
    return () => listeners[event].delete(fn);
  },
  /** Asks the server how jobs, sessions and studies stand. @returns {Promise<void>} */
  renewStatus: () => renewStatus(),
  /** @param {string} event @param {unknown} [detail] */
  emit(event, detail) {
    for (const fn of listeners[event] || []) fn(detail);
  },

  /** Follows the picker's choice. @param {string | null} id */
  setStudy(id) {
    id = id || null;
    if (!Studio.started) {
      const wanted = store.asked(location.href).study;
      if (wanted && wanted !== id) toast(`There is no study “${wanted}” here, or it is not open to you.`, 'bad');
      store.begin(id, location.href);
      store.followAddress();
      Studio.emit('started', id);
    } else if (id !== Studio.study) {
      const at = awaited;
      awaited = null;
      if (at?.study === id) store.returning(() => store.openStudy(id, at));
      else store.openStudy(id);
      Studio.emit('study', id);
    }
  },
  /** Asks the picker to reload the list of studies and to select one. @param {string | null} id */
  chooseStudy(id) {
    known = null; // this choice changes the list: the bar must not choose again while the picker answers
    choose(`${id || ''}#${Date.now()}`);
  },
  /** @param {{value: string}} props @param {(event: string) => void} trigger */
  bridge(props, trigger) {
    choose = (text) => {
      props.value = text;
      trigger('submit');
    };
  },
  /** @param {string} name */
  openTab(name) {
    const menu = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(MENU)]);
    (document.getElementById(`tab-${name}-button`) || menu.find((entry) => tabOf(entry) === name))?.click();
  },
  /** @param {number} id */
  openCase: (id) => enter('review', 'case', store.shownCase, id),
  /** Shows a run in the Training tab. @param {string} id */
  openRun: (id) => enter('training', 'run', store.trained, id),
  /** Shows the cases as a detector's run reads them, in the Review tab. @param {string} run */
  openReadings: (run) => enter('review', 'readings', store.reading, run),

  /** @param {HTMLElement} root @param {string} module @param {unknown} props */
  async mount(root, module, props) {
    try {
      const { mount } = await import(new URL(module, document.baseURI).href);
      await mount(root, Studio, props);
      root.dataset.ready = 'yes';
    } catch (error) {
      console.error(error);
      toast(error instanceof Error ? error.message : String(error), 'bad');
    }
  },
  /** @param {HTMLElement} element */
  shown: (element) => element.isConnected && element.offsetParent !== null && !document.hidden,
};
window.Studio = Studio;

// Without Gradio's first answer no study opens: if it was lost, the picker is asked again.
const LATE = 10_000; // milliseconds
setTimeout(() => {
  if (Studio.started) return;
  const { study, tab } = store.asked(location.href);
  Studio.chooseStudy(study);
  if (tab && !store.acts.value) Studio.openTab(tab);
}, LATE);

for (const event of ['pointerdown', 'keydown'])
  addEventListener(event, (e) => (store.acts.value += Number(e.isTrusted)), { capture: true });
// Gradio opens its list on any key except Escape, even on Tab, which leaves it.
const leaves = (/** @type {KeyboardEvent} */ e) =>
  e.key === 'Tab' && e.target instanceof Element && Boolean(e.target.closest('#study-picker'));
addEventListener('keydown', (e) => leaves(e) && e.stopPropagation(), { capture: true });
// Until somebody has used the page, it may choose a tab itself.
Studio.on('scored', () => {
  if (!store.acts.value && Studio.tab !== 'review') Studio.openTab('review');
});

// A study created elsewhere (the demo, another import) is added to the picker; the first one is opened.
/** @param {string[]} studies */
function follow(studies) {
  if (Studio.importing) return; // it selects its own study at the end: a second selection here could arrive last
  const list = studies.join(' ');
  if (known !== null && list !== known) {
    const first = known === '' && studies.length && !Studio.byHand;
    Studio.chooseStudy(first ? studies[0] : Studio.study);
  }
  known = list;
}

// A visible tab handles the last status when it arrives, and again with each heartbeat.
async function look() {
  const status = store.status.peek();
  if (!status || document.hidden) return;
  follow(status.studies);
  Studio.emit('status', status);
  await followPlan(Studio, Boolean(status.job)).catch(console.debug);
}
const newest = questions();
async function renewStatus() {
  const isNewest = newest();
  const status = await api('/api/status');
  if (!isNewest()) return;
  store.status.value = status;
  await look();
}
/** @type {(value?: unknown) => void} */
let answered = () => {};
askFirst(new Promise((resolve) => (answered = resolve))); // closed paths are known before the first request
Studio.on('started', () => {
  renewStatus().catch(console.debug).then(answered);
  events.follow(({ status, lost }) => {
    const healed = store.lost.peek() && !lost;
    store.lost.value = Boolean(lost);
    if (healed) Studio.emit('back'); // requests that failed meanwhile are sent now
    if (lost) return renewStatus().catch(console.debug); // a signed-out reader is sent to the sign-in page
    if (status) {
      newest(); // earlier requests are older
      store.status.value = status;
    }
    look();
  });
});
Studio.on('study', () => followPlan(Studio, Boolean(store.status.peek()?.job)).catch(console.debug));
document.addEventListener('visibilitychange', look);

effect(() => {
  const reading = store.status.value?.reading;
  if (reading) close(reading.closed, reading.why);
});

// The bar shows the running job, or that its state is unknown.
effect(() => {
  const lost = store.lost.value;
  const { job = null, beside = null } = (store.started.value && store.status.value) || {};
  const [sign, connection] = ['#at-work', '#connection'].map((place) => document.querySelector(place));
  if (!(sign instanceof HTMLElement) || !connection) return;
  connection.textContent = lost ? 'Connection lost. The page may be out of date; reconnecting …' : '';
  const also = beside ? ` · ${beside.message}` : ''; // the job running during a training
  const running = job && `${Math.round(100 * job.share)} % · ${job.message}${also}`;
  const text = job && (job.status === 'running' ? running : 'waiting to start');
  sign.hidden = !text || lost;
  if (text && sign.textContent !== text) sign.textContent = text;
  sign.onclick = () => Studio.openTab('training');
});

// When the window is shown or focused again, it catches up with what happened meanwhile.
let away = false;
const left = () => (away ||= document.hidden || !(document.activeElement instanceof HTMLIFrameElement));
const back = () => {
  if (!away || document.hidden || !Studio.started) return;
  away = false;
  Studio.emit('back');
};
addEventListener('blur', left);
addEventListener('focus', back);
document.addEventListener('visibilitychange', () => (document.hidden ? left() : back()));

// Back and Forward go through the previously open tabs and studies.
addEventListener('popstate', () => {
  const at = store.asked(location.href);
  if (!Studio.started) return;
  store.returning(() => Studio.openTab(at.tab || 'study'));
  if (at.study && at.study !== Studio.study) {
    awaited = at;
    Studio.chooseStudy(at.study);
  } else if (at.case && at.tab === 'review' && at.case !== store.shownCase.value) Studio.emit('case', at.case);
});

// The address follows clicks on tabs only: Gradio's own select events also fire while the page loads.
document.addEventListener('click', (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const button = target?.closest(`#rooms button[role=tab][id^=tab-], ${MENU}`);
  if (!button) return;
  store.tab.value = tabOf(button);
  setTimeout(() => Studio.emit('tab', Studio.tab), 0);
});
