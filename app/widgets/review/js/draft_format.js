// A drawing as bytes, so that it survives the page: length of the head (uint32), the head (JSON), then bits: the mask,
// and for each step of the history the pixels that it changed.
import { headed } from '../../../static/api.js';
import { cut, pack, paste, unpack } from './shapes.js';

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
