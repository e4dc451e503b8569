// What a step of the tour can do in the studio's page: as a hand would, by its own controls.
//   {tab}  {click, unless}  {tick}  {untick}  {set, value}  {slide, through, over}  {wait, seconds}  {there, seconds}
//   {found}: opens the case with the clearest lesion  {press}: keys
import { api } from '../../static/api.js';

const rest = (ms) => new Promise((done) => setTimeout(done, ms));
const PATIENCE = 120; // seconds for a control to be there

const visible = (node) => Boolean(node?.isConnected && node.getClientRects().length);

/**
 * Waits until something is found; null when the step was left meanwhile.
 * @template T @param {() => T} found @param {number} seconds @param {() => boolean} going @returns {Promise<NonNullable<T> | null>}
 */
export async function until(found, seconds, going) {
  const end = performance.now() + 1000 * seconds;
  while (going() && performance.now() < end) {
    const it = found();
    if (it) return it;
    await rest(60);
  }
  if (going()) throw new Error('it did not come about');
  return null;
}

function send(node, ...names) {
  for (const name of names) node.dispatchEvent(new node.ownerDocument.defaultView.Event(name, { bubbles: true }));
}

export async function act(frame, one, going) {
  const page = () => frame.contentDocument;
  const find = (selector) =>
    until(() => [...page().querySelectorAll(selector)].find((n) => visible(n) && !n.disabled), PATIENCE, going);
  if (one.tab) {
    frame.contentWindow.Studio.openTab(one.tab);
  } else if (one.found) {
    const { found } = await api('/api/tour');
    if (found && going()) frame.contentWindow.Studio.openCase(found);
    await until(() => Number(page().querySelector('.rv-row[aria-current]')?.dataset.id) === found, PATIENCE, going);
  } else if (one.press) {
    const { KeyboardEvent } = frame.contentWindow;
    for (const key of one.press) page().body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  } else if (one.wait) {
    await until(() => visible(page().querySelector(one.wait)), one.seconds || PATIENCE, going);
  } else if (one.there) {
    await until(() => page().querySelector(one.there), one.seconds || PATIENCE, going);
  } else if (one.click) {
    if (one.unless && visible(page().querySelector(one.unless))) return;
    (one.gone ? page().querySelector(one.click) : await find(one.click))?.click();
  } else if (one.tick || one.untick) {
    const box = await find(one.tick || one.untick);
    if (box && box.checked !== Boolean(one.tick)) box.click();
  } else if (one.set) {
    // A setting may stand in a folded group: it is set all the same.
    const box = await until(() => page().querySelector(one.set), PATIENCE, going);
    if (!box) return;
    box.value = one.value;
    send(box, 'input', 'change');
  } else if (one.slide) {
    const bar = await find(one.slide);
    for (let i = 1; bar && i < one.through.length; i += 1) {
      const [from, to] = [one.through[i - 1], one.through[i]];
      const moves = 14;
      for (let m = 1; m <= moves && going(); m += 1) {
        bar.value = from + ((to - from) * m) / moves;
        send(bar, 'input');
        await rest((1000 * one.over) / (moves * (one.through.length - 1)));
      }
      bar.value = to; // also when the tour goes on meanwhile: nothing is left half way
    }
    if (bar) {
      bar.value = one.through.at(-1);
      send(bar, 'input');
    }
  } else throw new Error(`the tour cannot ${JSON.stringify(one)}`);
}
