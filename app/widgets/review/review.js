// The Review tab: the actions of keys and buttons, and when the page opens which study and case.
import { get, idle } from '../../static/api.js';
import { fill, finder } from '../../static/dom.js';
import { shownCase, status } from '../../static/store.js';
import { again, decide, step } from './js/decisions.js';
import { allMarked, DRAWING, leave, save, snap, takeBox, takeNormal, takeTool } from './js/drawing.js';
import { record } from './js/findings.js';
import { frame } from './js/frame.js';
import { helpSheet, Keys } from './js/keys.js';
import { LAYOUTS } from './js/paint.js';
import { DECISIONS } from './js/parts.js';
import { reveal } from './js/reference.js';
import { ReviewView } from './js/review_view.js';
import { timeline } from './js/timeline.js';
import { TURNS } from './js/view.js';

const MASK_RING = /** @type {const} */ ({ outline: 'fill', fill: 'off', off: 'outline' });
const REST = 2000; // milliseconds until an update that a busy reader's list refused is retried
const NUDGE = 10; // steps of the threshold's slider for one key

/** The actions of keys and buttons, by name. @param {ReviewView} review @returns {Record<string, () => unknown>} */
function actionsOf(review) {
  const { $, view, show, display, threshold, editor } = review;
  const zoom = (/** @type {number} */ factor) => view.zoomAt(view.pane.w / 2, view.pane.h / 2, factor);
  const turns = Object.entries(TURNS).map(([name, turn]) => {
    const act = () => {
      const before = view.turn;
      view.reorient(turn);
      const [undo, redo] = [before, view.turn].map((one) => () => view.reorient(() => one));
      review.history.add({ words: 'turned view', case: review.detail?.id, passing: true, undo, redo });
    };
    return [name, act];
  });
  return {
    ...Object.fromEntries(turns),
    ...Object.fromEntries(DRAWING.map((name) => [name, () => takeTool(review, name)])),
    ...Object.fromEntries(DECISIONS.map(([name]) => [name, () => decide(review, name)])),
    heat: () => display.set({ heat: !show.heat }),
    contour: () => review.toggleOutline(),
    mask: () => (review.waits ? reveal(review) : display.set({ mask: MASK_RING[show.mask] })),
    invert: () => display.set({ invert: !show.invert }),
    roi: () => display.set({ inside: !show.inside }),
    nearest: () =>
      review.detail?.blind
        ? review.say('Decide first; then the nearest normal image is shown.')
        : display.set({ nearest: !show.nearest }),
    fit: () => view.reset(),
    full: () => view.oneToOne(),
    zoomin: () => zoom(1.25),
    ruler: () => review.drag(review.ruler),
    place: () => review.drag(review.place),
    zoomout: () => zoom(0.8),
    lower: () => threshold.set(threshold.current() - NUDGE),
    higher: () => threshold.set(threshold.current() + NUDGE),
    layout: () => {
      const ring = Object.keys(LAYOUTS);
      return display.setLayout(ring[(ring.indexOf(show.layout) + 1) % ring.length]);
    },
    detector: () => {
      const runs = (review.setup?.runs || []).filter((r) => r.first);
      const next = () => runs[(runs.findIndex((r) => r.id === review.run) + 1) % runs.length].id;
      if (runs.length > 1) review.useRun(next);
    },
    next: () => step(review),
    previous: () => step(review, { back: true }),
    unread: () => step(review, { unread: true }),
    save: () => save(review),
    undo: () => review.history.go('undo'),
    redo: () => review.history.go('redo'),
    snap: () => snap(review),
    box: () => takeBox(review),
    finished: () => allMarked(review),
    places: () => takeNormal(review),
    tag: () => $('.rv-tagged input').focus(),
    comment: () => $('.rv-comment').focus(),
    grid: () => review.grid.show(!review.grid.on, true),
    screen: () => (document.fullscreenElement ? document.exitFullscreen() : $('.rv-stage').requestFullscreen()),
    Enter: () => editor.points.length && editor.finish(),
    Escape: () => {
      if (review.dragged) review.dragged.toggle();
      else if (editor.points.length) editor.points = [];
      else if (editor.tool) editor.tool = null;
      else if (editor.mask && !editor.dirty) leave(review);
      review.redraw();
    },
  };
}

const DRAWS = [...DRAWING, 'snap', 'box', 'finished', 'places', 'save'];

/** The message for an action that a trial's list does not require, the same for all its cases.
 * @param {ReviewView} review @param {string} name */
function refusedInList({ setup }, name) {
  if (!setup?.trial) return '';
  if (DRAWS.includes(name)) return 'This list does not ask for drawings.';
  const places = name === 'place' || name.startsWith('finding ');
  return places && !setup.trial.marks ? 'Readers mark no lesions in this trial.' : '';
}

/** @param {HTMLElement & {review?: ReviewView, idle?: typeof idle}} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  fill(root, $('template').content);
  const review = new ReviewView(root, studio);
  const stage = review.$('.rv-view');
  /** @type {Record<string, () => unknown>} */
  const acts = { ...actionsOf(review), help: () => help.open(), peak: timeline(review) };
  const act = (/** @type {string} */ name) => {
    if (review.grid.act(name)) return;
    const unasked = refusedInList(review, name);
    if (unasked) return review.say(unasked);
    return name.startsWith('finding ') ? record(review, Number(name.slice(8))) : acts[name]?.();
  };
  /** @returns {boolean} */
  const listening = () =>
    studio.shown(root) &&
    !document.querySelector('dialog[open]:not(.rv-help)') &&
    (!help.element.open || Boolean(keys.waiting));
  const viewer = {
    // If nothing has the focus, the image has it.
    has: () => !review.grid.on && (stage.contains(document.activeElement) || document.activeElement === document.body),
    take: () => (review.grid.on ? review.grid.box : stage).focus({ preventScroll: true }),
    refuse: (/** @type {string} */ key) => {
      if (review.grid.on) return review.say('Decide on the image: press Enter to open the case.');
      const here = document.activeElement;
      const name = here?.getAttribute('aria-label') || here?.textContent?.trim() || 'another field';
      const text = `${key} was ignored: “${name.slice(0, 30)}” has the focus. Click the image or press Escape.`;
      review.flash(text, 'bad', 3500);
    },
  };
  /** @type {Keys} */
  const keys = new Keys(act, listening, viewer);
  root.addEventListener('click', (/** @type {any} */ { target, detail }) => {
    const { act: name } = target.closest('[data-act]')?.dataset || {};
    if (name) act(name);
    // A click on a button or a row returns the focus to the image; sliders, menus and text fields keep it.
    if (detail && target.closest('button, .rv-row') && !target.closest('dialog, form')) viewer.take();
  });
  const marked = () =>
    root.classList.toggle('rv-nokeys', !viewer.has() && !document.activeElement?.matches('input[type=range]'));
  for (const name of ['focusin', 'focusout']) document.addEventListener(name, () => requestAnimationFrame(marked));
  frame(review, keys);
  const help = helpSheet(review, keys);
  review.empty();
  root.review = review; // for tests
  root.idle = idle;

  // Loads when the tab is first visible, and again when the study changes.
  /** @type {string | null} */
  let opened = null;
  const show = () => {
    if (!studio.study || (opened === studio.study && review.study) || !studio.shown(root)) return;
    opened = studio.study;
    const wanted = shownCase.peek();
    const entered = review.open(studio.study, wanted);
    // A requested case is shown in the viewer, and so is the tour.
    if (!wanted && self === top) entered.then(() => review.grid.show(review.show.listing === 'grid'));
  };
  // On returning to the tab, new scores are shown, at the same case.
  let due = false; // the shown data may have changed
  let waits = 0;
  /** @param {boolean} [stay] whether to keep the current run, though another one is first now */
  const renew = async (stay = false) => {
    clearTimeout(waits);
    show();
    const study = opened;
    if (!study || !review.setup || review.study !== study || !studio.shown(root)) return;
    const { visit } = review;
    const wanted = due;
    due = false;
    const answer = await get('/api/review/open', { study });
    if (!answer.ok || review.visit !== visit) return;
    const names = (/** @type {{id: string, name: string}[]} */ runs) => runs.map((r) => r.id + r.name).join();
    const changed = names(answer.runs) !== names(review.setup.runs);
    if (changed && !(stay && answer.runs.some((/** @type {{id: string}} */ r) => r.id === review.run)))
      return review.enqueue(() => review.open(study, review.detail?.id));
    if (changed) {
      review.setup.runs = answer.runs;
      review.redraw();
    }
    if (!wanted) return;
    if (!(await again(review))) {
      due = true;
      waits = window.setTimeout(renew, REST, stay); // when the reader pauses
      return;
    }
    const [first] = review.list.rows.keys();
    if (first && !review.detail && review.study === study) review.goTo(first);
  };
  // Data stored meanwhile appear automatically: new cases, scores, drawings from another window of this reader.
  let last = status.peek();
  studio.on('status', (/** @type {Answers.Status} */ now) => {
    const { study, setup } = review;
    const { blind, session } = now.reading;
    const other = (/** @type {'arrived' | 'runs' | 'drafts'} */ part) =>
      Boolean(study && last && last[part][study] !== now[part][study]);
    const [drawn, stored] = [other('drafts'), other('arrived') || other('runs')];
    last = now;
    if (!study) return;
    // The end of a blind reading, or of a session in another window, shows at once.
    const mine = session?.study === study ? session.id : undefined;
    const same = setup?.blinded === blind.includes(study) && setup?.session?.id === mine;
    if (setup?.study === study && !same) return review.enqueue(() => review.open(study));
    if (drawn) review.drafts.follow();
    due ||= stored;
    if (due) renew(true);
  });
  studio.on('study', () => {
    opened = null;
    review.leave(); // visible or not
    show();
  });
  for (const event of ['tab', 'scored']) studio.on(event, () => renew());
  studio.on('back', () => {
    due = true;
    renew();
  });
  // In the tour's frame the tour keeps the keys.
  studio.on('tab', () => studio.shown(root) && document.hasFocus() && viewer.take());
  studio.on('flags', () => {
    if (review.setup && review.run && opened === studio.study) review.useRun(review.run);
  });
  studio.on('readings', (run) => {
    if (review.setup && opened === studio.study) review.useRun(run);
  });
  studio.on('case', (id) => {
    if (opened) review.grid.show(false).then(() => review.goTo(id));
  });
  new ResizeObserver(show).observe(root);
  // The tab fills the rest of the window.
  const fit = () => {
    if (!studio.shown(root)) return;
    const { top } = root.getBoundingClientRect();
    root.style.setProperty('--height', `${Math.floor(innerHeight - top - scrollY - 16)}px`);
  };
  addEventListener('resize', fit);
  studio.on('tab', fit);
  if (root.parentElement) new ResizeObserver(fit).observe(root.parentElement);
  fit();
  show();
}
