// Masks from boxes: snap turns the heat map's blob under the pointer into a mask, a dragged box the lesion in it. Both
// are ordinary steps of the drawing; the active tool stays, and clicks (G) correct them (segment.js). The next cases are
// prepared meanwhile.
import { post } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';
import { hottest } from './contour.js';
import { begin, takeTool } from './drawing.js';
import { boxOf } from './regions.js';
import { correctsFrom, inSight, maskOf, refused } from './segment.js';
import { join } from './shapes.js';

const USED = 'pmsacl.boxes'; // stored in the browser: for readers who have used boxes the next cases are prepared
const LEAST = 3; // minimum side of a dragged box in pixels; smaller ones are slips

/** What is missing for boxes, in a sentence; null if nothing is, undefined until known.
 * @type {string | null | undefined} */
let lacking;
/** @type {Promise<unknown> | null} */
let asking = null;

/** Fetches what is missing for boxes, once per page. @param {(sentence: string | null) => void} known */
export function available(known) {
  asking ||= post('/api/review/boxes', { cases: [] }).then((answer) => {
    if (answer.ok) lacking = answer.missing;
  });
  asking.then(() => lacking !== undefined && known(lacking));
}

/** Asks the studio to prepare cases, for readers who use boxes. @param {number[]} cases the first one first */
export function prepare(cases) {
  if (!lacking && kept(USED, false)) post('/api/review/boxes', { cases: cases.slice(0, 4) });
}

/** @param {ReviewView} review */
function beginUse(review) {
  keep(USED, true);
  if (review.detail) prepare([review.detail.id]);
}

/** Masks the blob under the pointer, or the hottest one if the pointer is elsewhere. @param {ReviewView} review */
export function snap(review) {
  const { editor, picture, heat, detail, threshold } = review;
  if (!picture || !detail || detail.blind) return;
  if (!heat) return review.say('There is no heat map here to snap to. Drag a box round the lesion instead ( / ).');
  const p = editor.cursor;
  const inside = p && p.x >= 0 && p.y >= 0 && p.x < picture.w && p.y < picture.h;
  const spot = inside ? p : hottest(heat.field, picture);
  const level = threshold.step === null ? null : heat.level;
  const body = { run: heat.run, spot: [spot.x, spot.y], level, window: inSight(review) };
  return drawn(review, `/api/review/snap/${detail.id}`, body);
}

/** Activates or deactivates the box tool. @param {ReviewView} review */
export function takeBox(review) {
  takeTool(review, 'box');
  review.editor.boxed = (a, b) => boxed(review, a, b);
  if (review.editor.tool === 'box') beginUse(review);
}

/** @param {ReviewView} review @param {Spot} a @param {Spot} b opposite corners */
function boxed(review, a, b) {
  const box = [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.max(a.x, b.x), Math.max(a.y, b.y)];
  if (box[2] - box[0] < LEAST || box[3] - box[1] < LEAST) return review.say('Drag a box round the lesion.');
  return drawn(review, `/api/review/box/${review.detail?.id}`, { box, window: inSight(review) });
}

/** Requests a mask and adds it to the drawing as one step, which clicks can correct.
 * @param {ReviewView} review @param {string} path @param {unknown} body */
async function drawn(review, path, body) {
  const { editor, detail, picture } = review;
  if (!detail || !picture) return;
  if (lacking) return review.say(lacking, 'bad');
  begin(review);
  const at = editor.history.length;
  const waits = setTimeout(() => review.flash('Looking at the image …', 'note', 20000), 400);
  try {
    const found = await maskOf(path, body, picture);
    if (review.detail?.id !== detail.id || !editor.mask || editor.history.length !== at) return;
    if (!found.some(Boolean))
      return review.say('Nothing was found there. Drag a box round the lesion, or use the brush.');
    editor.step((mask) => {
      for (let i = 0; i < found.length; i += 1) if (found[i]) mask[i] = 1;
      return join(boxOf(found, editor.w, editor.h), null);
    });
    if (editor.history.length > at) correctsFrom(review);
    else review.say('The mask already contains this region.');
  } catch (error) {
    refused(review, error);
  } finally {
    clearTimeout(waits);
    review.flash('', 'note', 0);
    beginUse(review);
    review.redraw();
  }
}
