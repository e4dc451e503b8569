// Click-to-segment: the studio grows a region from the clicks, which becomes a step of the drawing. Undo reverts a
// click; a brush stroke ends the region, and the next click starts a separate one.
import { base64, fetched, Refused, Unreachable } from '../../../static/api.js';
import { boxOf, join, pack, unpack } from './shapes.js';

/** @typedef {{x: number, y: number, positive: boolean}} Click in the image's pixels */
/** @typedef {[x0: number, y0: number, x1: number, y1: number]} Window in the image's pixels, ends excluded */
/** @typedef {{clicks: Click[], base: Uint8Array, window: Window | null, corrects: boolean}} Grown base: the mask before
 * the first click; corrects: the clicks correct it, else they grow a separate region */

const LEAST = 48; // pixels of a window's side
const WHOLE = 0.7; // a window that contains more of the image is the whole image

/** The region grown in each step of a drawing. @type {WeakMap<import('./editor.js').Entry, Grown>} */
const steps = new WeakMap();
/** Pending clicks. @type {{review: ReviewView, clicks: Click[]} | null} */
let asked = null;
/** @type {Promise<unknown>} */
let last = Promise.resolve();

/** Returns the region grown in the last step, if that was a click. @param {ReviewView} review */
function grown({ editor }) {
  const entry = editor.history.at(-1);
  return entry ? steps.get(entry) : undefined;
}

/** Returns the clicks to show. @param {ReviewView} review @returns {Click[]} */
export function placed(review) {
  if (review.editor.tool !== 'click') return [];
  return asked?.review === review ? asked.clicks : grown(review)?.clicks || [];
}

/** Makes the next clicks correct the mask of the last step. @param {ReviewView} review */
export function correctsFrom(review) {
  const { editor } = review;
  const entry = editor.history.at(-1);
  if (!entry || !editor.mask) return;
  steps.set(entry, { clicks: [], base: editor.mask.slice(), window: inSight(review), corrects: true });
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
 * to correct @returns {Promise<Uint8Array>} */
async function region(review, clicks, window, start) {
  const { detail, run, picture } = review;
  const body = {
    run: run || '',
    clicks: clicks.map((c) => [c.x, c.y, c.positive]),
    window,
    start: start ? base64(pack(start)) : '',
  };
  return maskOf(`/api/review/segment/${detail?.id}`, body, picture || { w: 0, h: 0 });
}

/** Requests a mask of an image. @param {string} path @param {unknown} body @param {{w: number, h: number}} image */
export async function maskOf(path, body, { w, h }) {
  const response = await fetched(path, body);
  return unpack(new Uint8Array(await response.arrayBuffer()), w * h);
}

/** Shows why there is no mask; errors not from the studio are rethrown. @param {ReviewView} review @param {Error} error */
export function refused(review, error) {
  if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
  review.say(error.message, 'bad');
}

/** Lets the studio prepare for the first click. @param {ReviewView} review */
export function ready(review) {
  last = last.then(() => region(review, [], inSight(review))).catch(() => {});
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
  const at = editor.history.length;
  asked = { review, clicks };
  review.draw();
  try {
    const found = await region(review, clicks, window, corrects ? base : undefined);
    if (review.detail?.id !== id || !editor.mask || editor.history.length !== at) return;
    // The region is recomputed from all clicks; a click outside the lesion must not add pixels elsewhere.
    if (!click.positive) for (let i = 0; i < found.length; i += 1) found[i] &= editor.mask[i];
    editor.step((mask) => {
      const box = boxOf(mask, editor.w, editor.h);
      mask.set(base);
      if (corrects) mask.set(found);
      else for (let i = 0; i < found.length; i += 1) if (found[i]) mask[i] = 1;
      return join(box, boxOf(mask, editor.w, editor.h));
    });
    const entry = editor.history.at(-1);
    if (entry && editor.history.length > at) steps.set(entry, { clicks, base, window, corrects });
    else review.say('This click did not change the region.');
  } catch (error) {
    refused(review, error);
  } finally {
    asked = null;
    review.redraw();
  }
}
