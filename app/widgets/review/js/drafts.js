// Drawings that are not saved yet: kept by the studio after each stroke, given back when the case comes again.
import { bytes, discard, get, postBytes } from '../../../static/api.js';
import { decode, encode } from './draft_format.js';

/** @param {Uint8Array} raw @param {CompressionStream | DecompressionStream} stream */
async function through(raw, stream) {
  const source = new Blob([/** @type {BlobPart} */ (raw)]).stream();
  return new Uint8Array(await new Response(source.pipeThrough(stream)).arrayBuffer());
}

export class Drafts {
  /** @param {import('./review_view.js').ReviewView} review */
  constructor(review) {
    this.review = review;
    /** @type {Set<number>} cases with a draft */
    this.cases = new Set();
    /** @type {number[]} the case of each stroke since the page was opened; 0 is a decision */
    this.trail = [];
    /** @type {Promise<unknown>} */
    this.sending = Promise.resolve();
    this.waiting = false;
    /** @type {Map<number, Uint8Array>} what is still to be sent, by case */
    this.latest = new Map();
    review.editor.kept = (steps) => this.keep(steps);
  }

  /** Another study comes: of this one nothing is known any more; what is to be sent is still sent. */
  clear() {
    this.cases = new Set();
    this.trail = [];
  }

  /** Asks which cases of the study have a draft. */
  async load() {
    const { study } = this.review;
    const found = await get('/api/review/drafts', { study });
    if (study !== this.review.study) return;
    this.cases = new Set(found.ok ? found.drafts.map((d) => d.id) : []);
    this.trail = [];
  }

  /**
   * Stores the drawing as it is now; calls while one is on its way are answered by one more.
   * @param {-1 | 0 | 1} steps 1: a step was added to the history or done again, -1: one was undone
   */
  keep(steps) {
    const { detail, editor } = this.review;
    if (!detail || !editor.mask) return;
    const { id } = detail;
    if (steps > 0) this.trail.push(id);
    else if (steps < 0) this.undone(id);
    if (!editor.history.length && !editor.points.length) return this.drop(id);
    if (!this.cases.has(id)) {
      this.cases.add(id);
      this.review.list.renew(id);
      this.review.named();
    }
    this.latest.set(id, encode(/** @type {import('./draft_format.js').Drawing} */ (editor)));
    if (this.waiting) return;
    this.waiting = true;
    this.sending = this.sending.then(() => this.send());
  }

  async send() {
    this.waiting = false;
    const drawings = [...this.latest];
    this.latest.clear();
    for (const [id, drawing] of drawings) {
      const body = await through(drawing, new CompressionStream('gzip'));
      const answer = await postBytes(`/api/review/draft/${id}`, {}, body);
      if (!answer.ok) this.review.say(`The drawing is not kept yet: ${answer.error}`, 'bad');
    }
  }

  /** The draft of a case, or null. @param {import('../../../static/answers').CaseDetail} detail */
  async fetch({ id, blind, width, height }) {
    if (blind || !this.cases.has(id)) return null;
    await this.sending;
    const got = await bytes(`/api/review/draft/${id}`);
    if (!got) return null;
    const drawing = decode(await through(new Uint8Array(got.buffer), new DecompressionStream('gzip')));
    return drawing.w === width && drawing.h === height ? drawing : null;
  }

  /** The draft has been saved as a version, or is given up. @param {number} id */
  async drop(id) {
    this.latest.delete(id);
    this.trail = this.trail.filter((one) => one !== id);
    if (!this.cases.delete(id)) return;
    this.review.list.renew(id);
    this.review.named();
    await this.sending;
    await discard(`/api/review/draft/${id}`);
  }

  decided() {
    this.trail.push(0);
  }

  /** @param {number} id of the case whose last stroke was undone; 0: a decision was */
  undone(id) {
    const at = this.trail.lastIndexOf(id);
    if (at >= 0) this.trail.splice(at, 1);
  }

  /** The case in which the last stroke was drawn, if that came after the last decision and it is another case. */
  elsewhere() {
    const last = this.trail.at(-1);
    return last && last !== this.review.detail?.id && this.cases.has(last) ? last : null;
  }
}
