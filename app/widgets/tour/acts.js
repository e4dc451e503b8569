// The actions of the tour's steps in the studio's page, through its controls, as a person would do them.
//   {tab}  {click, unless}  {tick}  {untick}  {set, value}  {slide, through, over}  {wait, seconds}  {there, seconds}
//   {found}: opens the case with the clearest lesion  {press}: keys  {stored}: selects the run that was trained before

/** A window of the studio's page. @typedef {Window & typeof globalThis} Page */

const rest = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));
const MOVES = 14; // of a slider, from one value to the next
const PATIENCE = 600; // seconds to wait for a control, on a busy machine

const visible = (/** @type {Element | null | undefined} */ node) =>
  Boolean(node?.isConnected && node.getClientRects().length);

/**
 * Waits until something is found; null if the step was left meanwhile.
 * @template T @param {() => T} found @param {number} seconds @param {() => boolean} going @returns {Promise<NonNullable<T> | null>}
 */
export async function until(found, seconds, going) {
  const end = performance.now() + 1000 * seconds;
  while (going() && performance.now() < end) {
    const it = found();
    if (it) return it;
    await rest(60);
  }
  if (going()) throw new Error('the expected element did not appear');
  return null;
}

/** @param {HTMLElement} node @param {...string} names of events */
function send(node, ...names) {
  for (const name of names)
    node.dispatchEvent(new /** @type {Page} */ (node.ownerDocument.defaultView).Event(name, { bubbles: true }));
}

/** @param {HTMLIFrameElement} frame @param {Answers.TourAct} one @param {() => boolean} going
 * false once another step is shown @param {() => Answers.TourState | null} state the studio's
 * latest answer @returns {Promise<void>} */
export async function act(frame, one, going, state) {
  const page = () => /** @type {Document} */ (frame.contentDocument);
  const view = /** @type {Page} */ (frame.contentWindow);
  /** @param {string} selector @returns {HTMLInputElement | null} */
  const first = (selector) => page().querySelector(selector);
  /** @param {string} selector */
  const find = (selector) => {
    const all = () => /** @type {HTMLInputElement[]} */ ([...page().querySelectorAll(selector)]);
    return until(() => all().find((n) => visible(n) && !n.disabled), PATIENCE, going);
  };
  const { wait, there, click, set, slide, through = [], over = 0 } = one;
  const tick = one.tick || one.untick;
  if (one.tab) {
    view.Studio.openTab(one.tab);
  } else if (one.found) {
    const found = await until(() => state()?.found, PATIENCE, going);
    if (found) view.Studio.openCase(found);
    await until(() => Number(first('.rv-row[aria-current]')?.dataset.id) === found, PATIENCE, going);
  } else if (one.stored) {
    (await find(`.training-room tr[data-run='${state()?.stored}']`))?.click();
  } else if (one.press) {
    const { KeyboardEvent } = view;
    for (const key of one.press) page().body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  } else if (wait) {
    await until(() => visible(first(wait)), one.seconds || PATIENCE, going);
  } else if (there) {
    await until(() => first(there), one.seconds || PATIENCE, going);
  } else if (click) {
    if (one.unless && visible(first(one.unless))) return;
    (one.gone ? first(click) : await find(click))?.click();
  } else if (tick) {
    const box = await find(tick);
    if (box && box.checked !== Boolean(one.tick)) box.click();
  } else if (set) {
    // A setting in a folded group is set as well.
    const box = await until(() => first(set), PATIENCE, going);
    if (!box) return;
    box.value = one.value || '';
    send(box, 'input', 'change');
  } else if (slide) {
    const bar = await find(slide);
    if (!bar) return;
    const put = (/** @type {number} */ value) => {
      bar.value = String(value);
      send(bar, 'input');
    };
    for (const [i, to] of through.slice(1).entries())
      for (let m = 1; m <= MOVES && going(); m += 1) {
        put(through[i] + ((to - through[i]) * m) / MOVES);
        await rest((1000 * over) / (MOVES * (through.length - 1)));
      }
    put(Number(through.at(-1))); // even if the tour moves on meanwhile: no action stays unfinished
  } else throw new Error(`the tour cannot ${JSON.stringify(one)}`);
}
