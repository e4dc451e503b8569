// The guided walk: what is said stands in steps.json, the studio lives in the frame above the bar.
import { act } from './acts.js';
import { ring } from './ring.js';

const $ = (selector) => document.querySelector(selector);
const frame = $('iframe');
const kept = (name, value) => (value === undefined ? sessionStorage.getItem(`walk.${name}`) : sessionStorage.setItem(`walk.${name}`, value));
const api = async (path, method = 'GET') => {
  const answer = await fetch(path, { method });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.error || 'The studio does not answer. Is it still running?');
  return data;
};

let steps = [];
let at = 0;
let turn = 0; // counts the steps shown: what an earlier one still does is given up
let ready = false; // the demo study is drawn
let loaded = ''; // what the frame was last sent to
let doneWith = null; // the part of the chain that was last at work

const studio = () => frame.contentWindow?.Studio;
const minutes = () => Math.max(1, Math.round(steps.slice(at).reduce((sum, s) => sum + s.seconds, 0) / 60));
const once = (i) => kept('done')?.split(' ').includes(String(i));

function say() {
  const step = steps[at];
  $('.walk-say h1').textContent = ready ? step.title : 'Drawing the demo study';
  $('.walk-say p').textContent = ready ? step.text : 'Its images are made on this machine, from a seed. This is done once and takes about half a minute.';
  $('.walk-back').disabled = !ready || at === 0;
  $('.walk-next').disabled = !ready || at === steps.length - 1;
  $('.walk-steps').replaceChildren(...steps.map((_, i) => Object.assign(document.createElement('li'), { className: i < at ? 'past' : i === at ? 'now' : '' })));
  document.body.dataset.step = ready ? String(at) : 'drawing';
}

// Opens the tab, does what the step does, and puts the ring around what it speaks of.
async function show() {
  const mine = ++turn;
  const going = () => mine === turn;
  const step = steps[at];
  say();
  ring(frame, null);
  delete document.body.dataset.shown;
  if (!ready) return;
  kept('at', String(at));
  await act.until(() => studio()?.started, Infinity, going);
  if (!going()) return;
  if (studio().study !== 'demo') studio().chooseStudy('demo');
  studio().openTab(step.tab);
  ring(frame, step.at);
  const todo = step.once && once(at) ? [] : step.do || [];
  if (step.once && !once(at)) kept('done', `${kept('done') || ''} ${at}`.trim());
  for (const one of todo) {
    await act(frame, one, going).catch((error) => console.warn(`step ${at + 1}: ${error.message}`));
    if (!going()) return;
  }
  studio().openTab(step.tab);
  ring(frame, step.at);
  document.body.dataset.shown = String(at);
}

function go(by) {
  const next = Math.min(steps.length - 1, Math.max(0, at + by));
  if (!ready || next === at) return;
  at = next;
  show();
}

// One key each way; a presenter's remote sends Page Down and Page Up.
const FORTH = ['ArrowRight', 'PageDown'];
const BACK = ['ArrowLeft', 'PageUp'];
function key(event) {
  const by = FORTH.includes(event.key) ? 1 : BACK.includes(event.key) ? -1 : 0;
  if (!by || event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.('input, select, textarea')) return;
  event.preventDefault();
  event.stopPropagation();
  go(by);
}

function open() {
  const asked = `/?study=${ready ? 'demo' : ''}&tab=${steps[at].tab}`;
  if (loaded === asked) return;
  loaded = asked;
  frame.src = asked;
}
frame.onload = () => {
  frame.contentWindow.addEventListener('keydown', key, true);
  show();
};
addEventListener('keydown', key, true);
$('.walk-next').onclick = () => go(1);
$('.walk-back').onclick = () => go(-1);

// Reset: pressed twice, so that a slip on the stage costs nothing.
let sure = 0;
const unsure = () => {
  clearTimeout(sure);
  sure = 0;
  $('.walk-reset').textContent = 'Reset';
  $('.walk-reset').classList.remove('sure');
};
$('.walk-reset').onclick = async () => {
  const button = $('.walk-reset');
  if (!sure) {
    sure = setTimeout(unsure, 4000);
    button.textContent = 'Sure? Again';
    button.classList.add('sure');
    return;
  }
  unsure();
  button.disabled = true;
  button.textContent = 'Resetting…';
  try {
    await api('/api/walk/reset', 'POST');
    sessionStorage.clear();
    at = 0;
    loaded = '';
    open();
    document.body.dataset.resets = String(Number(document.body.dataset.resets || 0) + 1);
  } catch (error) {
    state(error.message);
  } finally {
    button.disabled = false;
    unsure();
  }
};

// What is at work on the demo study, in a word and a percentage.
const DOING = { demo: 'Drawing', pretrain: 'Training', fit: 'Fitting', score: 'Scoring', evaluate: 'Evaluating', embed: 'Drawing the map' };
const state = (text) => { $('.walk-state').textContent = text; };
async function look() {
  try {
    const now = await api('/api/walk');
    if (now.ready !== ready) {
      ready = now.ready;
      open();
    }
    const { job } = now;
    // Rooms that were opened before there was anything to see look again when a part of the chain is done.
    const part = job && `${job.id} ${job.verb} ${job.status}`;
    if (part !== doneWith && studio()?.started) studio().emit('tab', steps[at].tab);
    doneWith = part;
    const left = ready ? `about ${minutes()} min left` : '';
    const doing = job && (job.status === 'queued' ? 'waiting to start' : `${DOING[job.verb] || job.verb}: ${Math.round(100 * job.progress)} %`);
    state([doing, left].filter(Boolean).join(' · '));
  } catch (error) {
    state(error.message);
  }
  setTimeout(look, 1000);
}

({ steps } = await api('/api/walk/steps'));
at = Math.min(steps.length - 1, Number(kept('at') || 0));
ready = (await api('/api/walk/prepare', 'POST')).ready;
say();
open();
look();
$('.walk-next').focus();
