// The guided tour: its text is in steps.json; the studio is in the frame above the bar.
import { api } from '../../static/api.js';
import { el, finder } from '../../static/dom.js';
import { act, until } from './acts.js';

const $ = finder(document);
const FORTH = ['ArrowRight', 'PageDown']; // a presenter's remote sends Page Down and Page Up
const BACK = ['ArrowLeft', 'PageUp'];
const SURE = 4000; // milliseconds within which Reset must be pressed again
const PERIOD = 1000; // milliseconds between checks of the demo study

/** @type {HTMLIFrameElement} */
const frame = $('iframe');
/** @type {Answers.TourStep[]} */
let steps = [];
let at = 0;
let turn = 0; // counts the steps shown: actions of earlier ones stop
let ready = false; // whether the demo study exists
let loaded = ''; // the frame's latest address

const kept = (/** @type {string} */ name) => sessionStorage.getItem(`tour.${name}`) || '';
const keep = (/** @type {string} */ name, /** @type {string} */ value) => sessionStorage.setItem(`tour.${name}`, value);
const studio = () => frame.contentWindow?.Studio;
/** @type {Answers.TourState | null} the studio's latest answer */
let now = null;
const [always, latest] = [() => true, () => now];
let follows = 0; // the frame in which the ring is placed next
/** Shows the tour's progress, or an error. @param {string} [text] */
const state = (text = ready ? `${at + 1} of ${steps.length}` : '') => {
  $('.tour-state').textContent = text;
};

/** Describes the result of the reader's own decisions. */
function counted() {
  const { read = 0, machine = 0, truth = 0, missed = 0 } = now?.agreement || {};
  if (!read) return '';
  const found = missed ? `, and found ${missed} that the machine missed` : '';
  return `Of ${read} read, you were right on ${truth}${found}; you and the machine agree on ${machine}.`;
}

function say() {
  const step = steps[at];
  const opening = 'Its images are drawn; they and their scores come with the program. This takes a few seconds, once.';
  $('.tour-say h1').textContent = ready ? step.title : 'Opening the demo study';
  $('.tour-say p').textContent = ready ? [step.yours && counted(), step.text].filter(Boolean).join(' ') : opening;
  $('.tour-back').disabled = !ready || at === 0;
  $('.tour-next').disabled = !ready || at === steps.length - 1;
  const look = (/** @type {number} */ i) => (i < at ? 'past' : i === at ? 'now' : '');
  $('.tour-steps').replaceChildren(...steps.map((_, i) => el('li', { class: look(i) })));
  document.body.dataset.step = ready ? String(at) : 'drawing';
  state();
}

// Opens the tab, carries out the step, and puts the ring around its subject.
async function show() {
  turn += 1;
  const mine = turn;
  const going = () => mine === turn;
  const step = steps[at];
  say();
  ring(null);
  delete document.body.dataset.shown;
  if (!ready) return;
  keep('at', String(at));
  await until(() => studio()?.started, Infinity, going);
  const page = studio();
  if (!going() || !page) return;
  if (page.study !== 'demo') page.chooseStudy('demo');
  page.openTab(step.tab);
  ring(step.at);
  const done = kept('done').split(' ');
  const again = step.once && done.includes(String(at));
  if (step.once && !again) keep('done', [...done, at].join(' ').trim());
  for (const one of again ? [] : step.do || []) {
    await act(frame, one, going, latest).catch((error) => console.warn(`step ${at + 1}: ${error.message}`));
    if (!going()) return;
  }
  say();
  studio()?.openTab(step.tab);
  ring(step.at);
  document.body.dataset.shown = String(at);
}

/** @param {number} by steps forward, or back if negative */
function go(by) {
  const next = Math.min(steps.length - 1, Math.max(0, at + by));
  if (!ready || next === at) return;
  at = next;
  show();
}

/** One key in each direction; in the reader's steps the letters of a decision also reach the studio from the bar.
 * @param {KeyboardEvent} event */
function key(event) {
  const page = frame.contentDocument;
  const inFrame = /** @type {Node} */ (event.target).ownerDocument === page;
  if (steps[at].yours && !inFrame && page && /^[nauz]$/i.test(event.key))
    return act(frame, { press: [event.key] }, always, latest);
  const by = FORTH.includes(event.key) ? 1 : BACK.includes(event.key) ? -1 : 0;
  const target = /** @type {Element | null} */ (event.target);
  if (!by || event.altKey || event.ctrlKey || event.metaKey || target?.closest?.('input, select, textarea')) return;
  event.preventDefault();
  event.stopPropagation();
  go(by);
}

function open() {
  const wanted = `./?study=${ready ? 'demo' : ''}&tab=${steps[at].tab}`;
  if (loaded === wanted) return;
  loaded = wanted;
  frame.src = wanted;
}
frame.onload = () => {
  frame.contentWindow?.addEventListener('keydown', key, true);
  show();
};
addEventListener('keydown', key, true);
$('.tour-next').onclick = () => go(1);
$('.tour-back').onclick = () => go(-1);

// Reset must be pressed twice, so that a slip on stage costs nothing.
let sure = 0;
const button = $('.tour-reset');
const word = (/** @type {string} */ text) => {
  button.textContent = text;
  button.classList.toggle('sure', Boolean(sure));
};
const unsure = () => {
  clearTimeout(sure);
  sure = 0;
  word('Reset');
};
button.onclick = async () => {
  if (!sure) {
    sure = setTimeout(unsure, SURE);
    return word('Press again');
  }
  unsure();
  button.disabled = true;
  word('Resetting…');
  try {
    await api('/api/tour/reset', {});
    sessionStorage.clear();
    at = 0;
    loaded = '';
    open();
    document.body.dataset.resets = String(Number(document.body.dataset.resets || 0) + 1);
  } catch (error) {
    state(error.message);
  }
  button.disabled = false;
  word('Reset');
};

async function look() {
  try {
    now = await api('/api/tour');
    if (now.ready !== ready) {
      ready = now.ready;
      open();
    }
    if (steps[at].yours) say();
    else state();
  } catch (error) {
    state(error.message);
  }
  setTimeout(look, PERIOD);
}

({ steps } = await api('/api/tour/steps'));
at = Math.min(steps.length - 1, Number(kept('at') || 0));
({ ready } = await api('/api/tour/prepare', {}));
now = await api('/api/tour');
say();
open();
look();
$('.tour-next').focus();

/** Shows a ring around the step's subject. It follows its element, lets clicks through, and is hidden with the element.
 * @param {string | null} selector without one no ring is shown */
function ring(selector) {
  cancelAnimationFrame(follows);
  /** @type {Element | null} */
  let seen = null;
  const follow = () => {
    const page = frame.contentDocument;
    if (page?.body) place(page);
    if (selector) follows = requestAnimationFrame(follow);
  };
  const place = (/** @type {Document} */ page) => {
    const made = () => page.body.appendChild(Object.assign(page.createElement('div'), { id: 'tour-ring' }));
    const box = page.getElementById('tour-ring') || made();
    const node = selector && [...page.querySelectorAll(selector)].find((n) => n.getClientRects().length);
    box.hidden = !node;
    if (!node) return;
    if (seen !== node) node.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    seen = node;
    const { innerWidth, innerHeight } = /** @type {Window} */ (frame.contentWindow);
    const { left, top, right, bottom } = node.getBoundingClientRect();
    const sides = [top, innerWidth - right, innerHeight - bottom, left];
    box.style.inset = sides.map((side) => `${Math.max(2, side - 5)}px`).join(' ');
  };
  follow();
}
