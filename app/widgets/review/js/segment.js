// Click-to-segment: the studio grows a region from the clicks, which becomes a step of the drawing. Undo reverts a
// click; a brush stroke ends the region, and the next click starts a separate one.
import { base64, fetched, Refused, Unreachable } from '../../../static/api.js';
import { pack, unite, unpack } from './shapes.js';

/** @typedef {{x: number, y: number, positive: boolean}} Click in the image's pixels */
/** @typedef {[x0: number, y0: number, x1: number, y1: number]} Window in the image's pixels, ends excluded */
/** @typedef {{clicks: Click[], base: Uint8Array, window: Window | null, corrects: boolean}} Grown base: the mask before
 * the first click; corrects: the clicks correct it, else they grow a separate region */

const LEAST = 48; // pixels of a window's side
const WHOLE = 0.7; // a window that contains more of the image is the whole image

/** Clicks that are shown before their answer. @type {Click[] | null} */
let pending = null;
/** @type {Promise<unknown>} */
let last = Promise.resolve();

/** Returns the region grown in the last step, if that was a click. @param {ReviewView} review */
const grown = ({ editor }) => editor.history.at(-1)?.grown;

/** Returns the clicks to show. @param {ReviewView} review @returns {Click[]} */
export function placed(review) {
  if (review.editor.tool !== 'click') return [];
  return pending || grown(review)?.clicks || [];
}

/** Makes the next clicks correct the mask as it is after a step.
 * @param {ReviewView} review @param {import('./editor.js').Entry} entry the last step */
export function correctsFrom(review, entry) {
  const base = review.editor.mask?.slice() || new Uint8Array();
  entry.grown = { clicks: [], base, window: inSight(review), corrects: true };
}

/** The visible part of the image; null if that is nearly all. @param {ReviewView} review @returns {Window | null} */
export function inSight({ view, picture }) {
  if (!picture) return null;
  const { w, h } = picture;
  const a = view.toImage(0, 0);
  const b = view.toImage(view.pane.w, view.pane.h);
  // In a flipped or turned view the corners are in another order.
  const [x0, y0] = [Math.max(0, Math.floor(Math.min(a.x, b.x))), Math.max(0, Math.floor(Math.min(a.y, b.y)))];
  const [x1, y1] = [Math.min(w, Math.ceil(Math.max(a.x, b.x))), Math.min(h, Math.ceil(Math.max(a.y, b.y)))];
  if ((x1 - x0) * (y1 - y0) > WHOLE * w * h || x1 - x0 < LEAST || y1 - y0 < LEAST) return null;
  return [x0, y0, x1, y1];
}

/** @param {ReviewView} review @param {Click[]} clicks @param {Window | null} window @param {Uint8Array} [start] a mask
 * to correct @returns {[path: string, body: Record<string, unknown>]} */
function question({ detail, run }, clicks, window, start) {
  const places = clicks.map((c) => [c.x, c.y, c.positive]);
  const body = { run: run || '', clicks: places, window, start: start ? base64(pack(start)) : '' };
  return [`/api/review/segment/${detail?.id}`, body];
}

/** Requests a mask of the case on screen and makes it a step of the drawing. Resolves to the mask and the step, which is
 * null if nothing changed; to null, after a message if the mask was refused, or if the drawing has changed meanwhile.
 * @param {ReviewView} review @param {string} path @param {unknown} body
 * @param {(mask: Uint8Array, found: Uint8Array) => void} change of the drawn mask */
export async function stepFrom(review, path, body, change) {
  const { editor, detail, picture } = review;
  if (!detail || !picture) return null;
  const { length } = editor.history;
  try {
    const response = await fetched(path, body);
    const found = unpack(new Uint8Array(await response.arrayBuffer()), picture.w * picture.h);
    if (review.detail?.id !== detail.id || !editor.mask || editor.history.length !== length) return null;
    return { found, entry: editor.step((mask) => change(mask, found)) };
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    review.say(error.message, 'bad');
    return null;
  }
}

/** Lets the studio prepare for the first click. @param {ReviewView} review */
export function ready(review) {
  last = last.then(() => fetched(...question(review, [], inSight(review)))).catch(() => {});
}

/** A click: inside the lesion, or outside. @param {ReviewView} review @param {Spot} p
 * @param {boolean} positive */
export function grow(review, p, positive) {
  const { picture, detail } = review;
  if (!picture || !detail || p.x < 0 || p.y < 0 || p.x >= picture.w || p.y >= picture.h) return;
  last = last.then(() => one(review, detail.id, { x: p.x, y: p.y, positive }));
  return last;
}

/** @param {ReviewView} review @param {number} id of the case that was clicked @param {Click} click */
async function one(review, id, click) {
  const { editor } = review;
  if (review.detail?.id !== id || !editor.mask) return;
  const latest = grown(review);
  // A removing click on the mask from before the region starts a correction of the whole mask.
  const drawn = !click.positive && latest?.base[Math.floor(click.y) * editor.w + Math.floor(click.x)];
  const before = drawn && !latest?.corrects ? undefined : latest;
  // A removing click without a grown region corrects the drawn mask.
  const corrects = before ? before.corrects : !click.positive && editor.mask.some(Boolean);
  if (!before && !click.positive && !corrects)
    return review.say('Click inside the lesion first; then a click with Alt or Shift removes.');
  const window = before ? before.window : inSight(review);
  const clicks = [...(before?.clicks || []), click];
  const base = before?.base || editor.mask.slice();
  pending = clicks;
  review.draw();
  const asked = question(review, clicks, window, corrects ? base : undefined);
  const made = await stepFrom(review, ...asked, (mask, found) => {
    // The region is recomputed from all clicks; a click outside the lesion must not add pixels elsewhere.
    if (!click.positive) for (let i = 0; i < found.length; i += 1) found[i] &= mask[i];
    mask.set(corrects ? found : base);
    if (!corrects) unite(mask, found);
  });
  pending = null;
  if (made?.entry) made.entry.grown = { clicks, base, window, corrects };
  else if (made) review.say('This click did not change the region.');
  review.redraw();
}
