// Unsaved drawings: stored by the studio after each stroke, restored when the case is shown again.
import { base64, bytes, discard, get, headed, postBytes } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';
import { cut, pack, paste, unpack } from './shapes.js';
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
    const { study } = this.review;
    this.takeUp();
    await this.sending;
    const found = await get('/api/review/drafts', { study });
    if (study !== this.review.study) return;
    this.cases = new Set(found.ok ? found.drafts.map((d) => d.id) : []);
  }

  /** Updates from drafts that another window of this reader stored or discarded; this window's are known. */
  async follow() {
    const { study } = this.review;
    await this.sending;
    const found = await get('/api/review/drafts', { study });
    if (study !== this.review.study || !found.ok || this.latest.size) return;
    const before = this.cases;
    this.cases = new Set(found.drafts.map((d) => d.id));
    for (const id of new Set([...before, ...this.cases]))
      if (before.has(id) !== this.cases.has(id)) this.review.list.renew(id);
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
    const unsent = this.latest.get(id);
    const got = unsent ? null : await bytes(`/api/review/draft/${id}`);
    if (!got && !unsent) return null;
    const raw = unsent || (await through(new Uint8Array(got?.buffer || []), new DecompressionStream('gzip')));
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
const area = (box) => (box.x1 - box.x0 + 1) * (box.y1 - box.y0 + 1);

/** @param {Entry} entry */
const changed = ({ before, after }) => pack(before.map((v, i) => v ^ after[i]));

/** @param {Drawing} drawing */
export function encode({ w, h, mask, history, future, points, origin }) {
  let left = LARGEST;
  const fits = (/** @type {Entry} */ entry) => {
    left -= area(entry.box) / 8;
    return left > 0;
  };
  const past = history.slice(history.findLastIndex((entry) => !fits(entry)) + 1);
  const next = future.slice(future.findLastIndex((entry) => !fits(entry)) + 1);
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
  const read = headed(bytes.buffer, bytes.byteOffset);
  const { w, h, points, origin, history, future } = read.head;
  let at = read.at - bytes.byteOffset;
  const bits = (/** @type {number} */ count) => {
    const part = unpack(bytes.subarray(at, at + Math.ceil(count / 8)), count);
    at += Math.ceil(count / 8);
    return part;
  };
  const mask = bits(w * h);
  const flips = [...history, ...future].map((/** @type {Box} */ box) => ({ box, flip: bits(area(box)) }));
  /** Returns the mask before and after a step, from the mask on one side of it.
   * @param {Uint8Array} from changed: the mask on the other side @param {{box: Box, flip: Uint8Array}} step */
  const crossed = (from, { box, flip }) => {
    const here = cut(from, w, box);
    const there = here.map((v, i) => v ^ flip[i]);
    paste(from, w, box, there);
    return { box, here, there };
  };
  const back = mask.slice();
  const past = flips
    .slice(0, history.length)
    .reverse()
    .map((step) => crossed(back, step))
    .map(({ box, here, there }) => ({ box, before: there, after: here }));
  const on = mask.slice();
  const next = flips
    .slice(history.length)
    .reverse() // the step undone last is at the end, and is redone first
    .map((step) => crossed(on, step))
    .map(({ box, here, there }) => ({ box, before: here, after: there }));
  return { w, h, mask, points, origin, history: past.reverse(), future: next.reverse() };
}
