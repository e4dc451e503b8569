// Unsaved drawings: stored by the studio after each stroke, restored when the case is shown again.
import { base64, bytes, discard, get, headed, postBytes } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';
import { cut, pack, paste, sides, unpack } from './shapes.js';
import { isPassing } from './stored.js';

/** @param {Uint8Array} raw @param {CompressionStream | DecompressionStream} stream */
async function through(raw, stream) {
  const source = new Blob([/** @type {BlobPart} */ (raw)]).stream();
  return new Uint8Array(await new Response(source.pipeThrough(stream)).arrayBuffer());
}

const KEY = 'pmsacl.drafts';
const PAUSE = 3000; // milliseconds until an unanswered draft is sent again

/** Drawings that a closed page could not send: [case, base64] by reader. @returns {Record<string, [number, string][]>} */
const left = () => kept(KEY, {});

export class Drafts {
  /** @param {ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {Set<number>} cases with a draft */
    this.cases = new Set();
    /** @type {Promise<unknown>} */
    this.sending = Promise.resolve();
    this.waiting = false;
    /** @type {Map<number, Uint8Array | null>} unanswered drafts by case; null: the draft is discarded */
    this.latest = new Map();
    review.editor.kept = (step) => {
      if (step && review.detail) review.history.stroke();
      this.keep();
    };
    addEventListener('pagehide', () => this.leave());
  }

  /** Fetches which cases of the study have a draft. */
  async load() {
    this.takeUp();
    this.cases = (await this.stored()) || this.cases;
  }

  /** Updates from drafts that another window of this reader stored or discarded; this window's are known. */
  async follow() {
    const cases = await this.stored();
    if (!cases || this.latest.size) return;
    const before = this.cases;
    this.cases = cases;
    for (const id of [...before, ...cases]) if (before.has(id) !== cases.has(id)) this.review.list.renew(id);
  }

  /** The cases whose drafts the studio has; null if they are not known, or no longer asked for. */
  async stored() {
    const { study } = this.review;
    await this.sending;
    const found = await get('/api/review/drafts', { study });
    return found.ok && study === this.review.study ? new Set(found.drafts.map((d) => d.id)) : null;
  }

  /** On leaving the page: stores unanswered drafts in the browser, for the next page. */
  leave() {
    const reader = this.review.setup?.reader || '';
    const unsent = [...this.latest].flatMap(([id, raw]) => (raw ? [[id, base64(raw)]] : []));
    if (unsent.length) keep(KEY, { ...left(), [reader]: /** @type {[number, string][]} */ (unsent) });
  }

  /** Sends the drafts that an earlier page of this reader left. */
  takeUp() {
    const { [this.review.setup?.reader || '']: mine = [], ...others } = left();
    if (!mine.length) return;
    keep(KEY, others);
    const bytesOf = (/** @type {string} */ raw) => Uint8Array.from(atob(raw), (c) => c.charCodeAt(0));
    for (const [id, raw] of mine) this.queue(id, bytesOf(raw));
  }

  /** Stores the current drawing; calls during a pending request lead to one more. */
  keep() {
    const { detail, editor } = this.review;
    if (!detail || !editor.mask) return;
    const { id } = detail;
    if (!editor.history.length && !editor.points.length) return this.drop(id);
    if (!this.cases.has(id)) {
      this.cases.add(id);
      this.review.list.renew(id);
      this.review.redraw();
    }
    this.queue(id, encode(/** @type {Drawing} */ (editor)));
  }

  /** Sends a drawing, or that it is discarded, after everything queued before. @param {number} id @param {Uint8Array | null} drawing */
  queue(id, drawing) {
    this.latest.delete(id);
    this.latest.set(id, drawing);
    if (this.waiting) return;
    this.waiting = true;
    this.sending = this.sending.then(() => this.send());
  }

  async send() {
    this.waiting = false;
    for (const [id, drawing] of [...this.latest]) {
      const path = /** @type {const} */ (`/api/review/draft/${id}`);
      const answer = drawing
        ? await postBytes(path, {}, await through(drawing, new CompressionStream('gzip')))
        : await discard(path);
      const again = isPassing(answer);
      if (!again && this.latest.get(id) === drawing) this.latest.delete(id);
      if (!answer.ok && drawing) this.review.say(`The drawing is not saved yet: ${answer.error}`, 'bad');
      if (again) setTimeout(() => this.latest.get(id) === drawing && this.queue(id, drawing), PAUSE);
    }
  }

  /** Fetches the draft of a case, or null. @param {Answers.CaseDetail} detail */
  async fetch({ id, blind, width, height }) {
    if (blind || !this.cases.has(id)) return null;
    await this.sending;
    let raw = this.latest.get(id);
    if (!raw) {
      const got = await bytes(`/api/review/draft/${id}`);
      if (!got) return null;
      raw = await through(new Uint8Array(got.buffer), new DecompressionStream('gzip'));
    }
    const drawing = decode(raw);
    return drawing.w === width && drawing.h === height ? drawing : null;
  }

  /** Drops a draft that was saved as a version, or is discarded. @param {number} id */
  drop(id) {
    if (!this.cases.delete(id)) return;
    this.review.list.renew(id);
    this.review.redraw();
    this.queue(id, null);
  }
}

// A drawing as bytes, so that it survives the page: length of the head (uint32), the head (JSON), then bits: the mask,
// and for each step of the history the pixels that it changed.
/** @typedef {import('./shapes.js').Box} Box */
/** @typedef {import('./editor.js').Entry} Entry */
/** @typedef {{w: number, h: number, mask: Uint8Array, history: Entry[], future: Entry[],
 *   points: Spot[], origin: import('./editor.js').Origin | null}} Drawing */

const LARGEST = 2 << 20; // bytes of the history; older steps are dropped

/** @param {Box} box */
const area = (box) => sides(box)[0] * sides(box)[1];

/** @param {Entry} entry */
const changed = ({ before, after }) => pack(before.map((v, i) => v ^ after[i]));

/** @param {Drawing} drawing */
export function encode({ w, h, mask, history, future, points, origin }) {
  let left = LARGEST;
  const fits = (/** @type {Entry} */ { box }) => (left -= area(box) / 8) > 0;
  const [past, next] = [history, future].map((steps) => steps.slice(steps.findLastIndex((step) => !fits(step)) + 1));
  const boxes = (/** @type {Entry[]} */ entries) => entries.map((e) => e.box);
  const head = { w, h, points, origin, history: boxes(past), future: boxes(next) };
  const text = new TextEncoder().encode(JSON.stringify(head));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, text.length, true);
  const parts = [length, text, pack(mask), ...past.map(changed), ...next.map(changed)];
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** @param {Uint8Array} bytes as `encode` made them @returns {Drawing} */
export function decode(bytes) {
  let { head, at } = headed(bytes.buffer);
  const { w, h, points, origin, history, future } = head;
  const bits = (/** @type {number} */ count) => {
    const part = unpack(bytes.subarray(at, at + Math.ceil(count / 8)), count);
    at += Math.ceil(count / 8);
    return part;
  };
  const mask = bits(w * h);
  /** Reads steps, of which the last one is next to the mask.
   * @param {Box[]} boxes @param {boolean} done whether the mask is after the steps, not before them */
  const steps = (boxes, done) => {
    const side = mask.slice();
    const flips = boxes.map((box) => ({ box, flip: bits(area(box)) }));
    const crossed = flips.reverse().map(({ box, flip }) => {
      const here = cut(side, w, box);
      const there = here.map((v, i) => v ^ flip[i]);
      paste(side, w, box, there);
      return done ? { box, before: there, after: here } : { box, before: here, after: there };
    });
    return crossed.reverse();
  };
  return { w, h, mask, points, origin, history: steps(history, true), future: steps(future, false) };
}
