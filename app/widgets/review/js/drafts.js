// Unsaved drawings: stored by the studio after each stroke, restored when the case is shown again.
import { base64, bytes, discard, get, postBytes } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';
import { decode, encode } from './draft_format.js';
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
      this.review.named();
    }
    this.queue(id, encode(/** @type {import('./draft_format.js').Drawing} */ (editor)));
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
    this.review.named();
    this.queue(id, null);
  }
}
