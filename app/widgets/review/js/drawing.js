// Drawing a lesion mask: active tools, masks from boxes, versions on screen, saving.
import { signal } from '@preact/signals';
import { bytes, discard, enqueue, post, postBytes } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';
import { STROKE } from './history.js';
import * as layers from './layers.js';
import { masksShown } from './reference.js';
import { correctsFrom, grow, inSight, ready, stepFrom } from './segment.js';
import { hottest, pack, unite, unpack } from './shapes.js';
import { overlap } from './threshold.js';

export const DRAWING = ['click', 'brush', 'erase', 'polygon', 'take'];

/** Starts a drawing, unless one exists: a new version from the one on screen. @param {ReviewView} review */
export function begin({ editor, picture, lesion }) {
  if (editor.mask || !picture) return;
  editor.open(picture.w, picture.h, lesion?.pixels, { source: 'hand' });
  editor.size = Math.max(3, Math.min(editor.size, Math.round(Math.min(picture.w, picture.h) / 4)));
}

/** @param {ReviewView} review @param {string} tool */
export function takeTool(review, tool) {
  const { editor, picture } = review;
  if (!picture) return;
  const now = "You can mark a location now: press ' and then 1 to 9.";
  if (review.detail?.blind) return review.say(`Decide first; then masks can be drawn. ${now}`);
  review.dragged?.toggle();
  if (editor.tool === tool) editor.tool = null;
  else {
    editor.tool = tool;
    begin(review);
    editor.take = tool === 'click' ? (p, value) => grow(review, p, value === 1) : (p) => takeComponent(review, p);
    if (tool === 'click') ready(review);
  }
  if (tool !== 'polygon') editor.points = [];
  review.redraw();
}

/** Adds the part of the heat map at or above the threshold under a spot. @param {ReviewView} review
 * @param {Spot} p */
function takeComponent(review, p) {
  const { heat, editor } = review;
  if (!heat) return;
  if (!editor.takeComponent(heat, p))
    review.say('The heat map is below the threshold there. Lower the threshold, or click inside the contour.');
  else if (editor.origin?.source === 'hand' && !review.lesion && editor.history.length === 1)
    editor.origin = { source: 'run', run: review.run, threshold: heat.level };
}

/** Discards the drawing and its draft. @param {ReviewView} review */
export function leave(review) {
  const id = review.detail?.id;
  if (id) {
    review.drafts.drop(id);
    review.history.forget((act) => act.case === id && act.words === STROKE);
  }
  review.editor.close();
  review.editor.tool = null;
  review.redraw();
}

/** @param {ReviewView} review @param {string} [finding] its label; default: the one chosen in the menu */
export function save(review, finding = '') {
  const { editor, detail } = review;
  if (!editor.mask || !detail) return review.say('There is no drawn mask to save. Draw with the brush (B) first.');
  if (editor.points.length > 2) editor.finish();
  const drawn = editor.mask;
  return enqueue(async () => {
    const label = finding || review.$('.rv-lesion').value;
    const untouched = editor.origin?.source === 'run' && editor.history.length === 1;
    await review.drafts.sending;
    if (editor.origin?.source === 'normal') return keepNormal(review, detail, drawn);
    const params = { ...(untouched ? editor.origin : { source: 'hand' }), label };
    const before = detail.masks?.[0]?.id || null;
    const bits = pack(drawn);
    const answer = await stored(review, detail.id, params, bits);
    if (!answer) return;
    const number = numbered(review, answer);
    let added = label && newest(review);
    review.history.add({
      words: `mask, version ${number}`,
      case: detail.id,
      undo: async () => {
        if (added) await discard(`/api/review/finding/${added}`);
        return newestIs(review, detail.id, before);
      },
      redo: async () => {
        const again = await stored(review, detail.id, params, bits);
        if (again) await use(review, again.mask);
        added = label && newest(review);
        return Boolean(again);
      },
    });
    if (review.detail?.id !== detail.id) return;
    leave(review);
    await use(review, answer.mask);
    review.say(`Saved as version ${number} (${answer.pixels} pixels).`, 'good');
    review.marked();
  });
}

/** Returns the reader's newest finding on the case on screen. @param {ReviewView} review */
export const newest = ({ detail, setup }) =>
  Math.max(0, ...(detail?.findings || []).filter((f) => f.reader === setup?.reader).map((f) => f.id));

/** Stores a mask as the newest version of a case. @param {ReviewView} review @param {number} id of the case
 * @param {Record<string, unknown>} params @param {Uint8Array} bits */
const stored = (review, id, params, bits) => review.changed(id, postBytes(`/api/review/mask/${id}`, params, bits));

/** Makes an earlier version of a case's mask the newest; without one, adds an empty version.
 * @param {ReviewView} review @param {number} id @param {number | null} mask */
async function newestIs(review, id, mask) {
  await review.history.at(id);
  const { detail, picture } = review;
  if (!detail || !picture || detail.id !== id) return false;
  const empty = () => stored(review, id, { source: 'hand' }, pack(new Uint8Array(picture.w * picture.h)));
  const answer = await (mask ? review.changed(id, post(`/api/review/restore/${mask}`)) : empty());
  if (!answer) return false;
  await use(review, answer.mask);
}

/** The brush for areas called normal: a separate drawing, starting from the areas marked before.
 * @param {ReviewView} review */
export async function takeNormal(review) {
  const { editor, detail, picture } = review;
  if (!picture || !detail || detail.blind) return;
  if (editor.mask && editor.origin?.source !== 'normal') {
    if (editor.dirty) return review.say('Save (S) or discard the drawn lesion mask first.');
    leave(review);
  }
  if (!editor.mask) {
    const held = detail.marks?.normal ? await bytes(`/api/review/normal/${detail.id}`) : null;
    if (review.detail?.id !== detail.id || editor.mask) return;
    const places = held && unpack(new Uint8Array(held.buffer), picture.w * picture.h);
    editor.open(picture.w, picture.h, places, { source: 'normal' });
    editor.tool = null;
  }
  takeTool(review, 'brush');
}

/** @param {ReviewView} review @param {Answers.CaseDetail} detail @param {Uint8Array} drawn */
async function keepNormal(review, detail, drawn) {
  const answer = await review.changed(detail.id, postBytes(`/api/review/normal/${detail.id}`, {}, pack(drawn)));
  if (!answer) return;
  if (review.detail?.id === detail.id) leave(review);
  review.say(answer.marks.normal ? 'These areas are saved as normal.' : 'No area is marked as normal now.', 'good');
}

/** States that all lesions of the case are marked, or withdraws that. @param {ReviewView} review */
export function allMarked(review) {
  const { detail } = review;
  const turn = async () => {
    if (!detail?.marks) return false;
    const asked = post(`/api/review/finished/${detail.id}`, { finished: !detail.marks.finished });
    const answer = await review.changed(detail.id, asked);
    if (!answer) return false;
    detail.marks = answer.marks; // of this action, which may be undone after the case was reloaded
    const said = 'Fully annotated: everything unmarked counts as normal.';
    review.say(answer.marks.finished ? said : 'Not fully annotated: only the marks are used for learning.', 'good');
  };
  return enqueue(async () => {
    if ((await turn()) !== false)
      review.history.add({ words: 'fully annotated', case: detail?.id, undo: turn, redo: turn });
  });
}

/** Fetches a version of the mask, or none, and shows it if the case is still on screen.
 * @param {ReviewView} review @param {number | null} id @param {(mask: layers.MaskLayer | null) => void} put */
async function withVersion(review, id, put) {
  const { detail } = review;
  if (!detail) return;
  const mask = id ? await layers.masks.get(`${detail.id}/${id}`, detail.id, id) : null;
  if (review.detail?.id !== detail.id) return;
  put(mask);
  review.redraw();
}

/** Shows a version of the mask, or none. @param {ReviewView} review @param {number | null} id */
export const use = (review, id) =>
  withVersion(review, id, (lesion) => {
    review.put({ lesion, maskId: id, waits: review.waits && !id });
    if (review.heat) review.threshold.settle();
  });

/** Shows a second version with the first. @param {ReviewView} review @param {number | null} id */
export const compare = (review, id) =>
  withVersion(review, id, (other) => {
    review.put({ other, otherId: id });
    if (!other || !review.lesion) return;
    const { dice, iou } = overlap(review.lesion.pixels, other.pixels);
    review.say(`The two versions: Dice ${dice.toFixed(3)}, IoU ${iou.toFixed(3)}.`);
  });

/** Returns the number of a version as the reader may know it. @param {ReviewView} review
 * @param {{mask: number, version: number}} saved */
const numbered = (review, { mask, version: number }) =>
  (review.detail && masksShown(review, review.detail).find((m) => m.id === mask)?.version) || number;

/** Makes the version on screen the case's reference mask. @param {ReviewView} review */
export function makeReference(review) {
  return review.enqueue(async () => {
    const { detail, maskId } = review;
    if (!maskId || !detail) return;
    const answer = await review.changed(detail.id, post(`/api/review/reference/${maskId}`));
    if (answer) review.say('Figures now use this mask.', 'good');
  });
}

/** Makes the version on screen the newest one. @param {ReviewView} review */
export function restore(review) {
  return review.enqueue(async () => {
    const { detail, maskId } = review;
    if (!maskId || !detail) return;
    const before = detail.masks?.[0]?.id || null;
    if ((await newestIs(review, detail.id, maskId)) === false) return;
    const to = (/** @type {number | null} */ mask) => () => newestIs(review, detail.id, mask);
    review.history.add({ words: 'older mask restored', case: detail.id, undo: to(before), redo: to(maskId) });
    review.say(`Restored as version ${masksShown(review, detail)[0]?.version}.`, 'good');
  });
}

// Masks from boxes: snap turns the heat map's blob under the pointer into a mask, a dragged box the lesion in it. Both
// are ordinary steps of the drawing; the active tool stays, and clicks (G) correct them (segment.js). The next cases are
// prepared meanwhile.
const USED = 'pmsacl.boxes'; // stored in the browser: for readers who have used boxes the next cases are prepared
const LEAST = 3; // minimum side of a dragged box in pixels; smaller ones are slips

export const lacking = signal(''); // what is missing for boxes, in a sentence

/** Fetches what is missing for boxes. */
export async function askLacking() {
  const answer = await post('/api/review/boxes', { cases: [] });
  if (answer.ok) lacking.value = answer.missing || '';
}

/** Asks the studio to prepare cases, for readers who use boxes. @param {number[]} cases the first one first */
export function prepare(cases) {
  if (!lacking.value && kept(USED, false)) post('/api/review/boxes', { cases: cases.slice(0, 4) });
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
  if (lacking.value) return review.say(lacking.value, 'bad');
  begin(review);
  const waits = setTimeout(() => review.flash('Looking at the image …', 'note', 20000), 400);
  const made = await stepFrom(review, path, body, unite);
  clearTimeout(waits);
  review.flash('', 'note', 0);
  if (made?.entry) correctsFrom(review, made.entry);
  else if (made?.found.some(Boolean)) review.say('The mask already contains this region.');
  else if (made) review.say('Nothing was found there. Drag a box round the lesion, or use the brush.');
  beginUse(review);
  review.redraw();
}
