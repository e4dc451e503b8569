import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { decode, encode } from '../../../app/widgets/review/js/draft_format.js';
import { cut, paste, stroke } from '../../../app/widgets/review/js/shapes.js';
import { random } from './browser.js';

/** @typedef {import('../../../app/widgets/review/js/editor.js').Entry} Entry */

test('a drawing comes back from its bytes with every step before and after it', () => {
  const [w, h] = [57, 41];
  const draw = random(3);
  const mask = new Uint8Array(w * h);
  /** @type {Entry[]} */
  const history = [];
  for (let i = 0; i < 9; i += 1) {
    const before = mask.slice();
    const a = { x: draw() * w, y: draw() * h };
    const b = { x: draw() * w, y: draw() * h };
    const box = stroke(mask, w, h, a, b, 2 + 4 * draw(), i % 3 ? 1 : 0);
    if (box) history.push({ box, before: cut(before, w, box), after: cut(mask, w, box) });
  }
  /** @type {Entry[]} */
  const future = [];
  for (let i = 0; i < 3; i += 1) {
    const entry = /** @type {Entry} */ (history.pop());
    paste(mask, w, entry.box, entry.before);
    future.push(entry);
  }
  const drawing = { w, h, mask, history, future, points: [{ x: 1.5, y: 2 }], origin: { source: 'hand' } };
  const again = decode(encode(drawing));
  assert.deepEqual(again, drawing);
});

test('the oldest steps of a very long history are dropped', () => {
  const [w, h] = [2048, 2048];
  const mask = new Uint8Array(w * h);
  const box = { x0: 0, y0: 0, x1: w - 1, y1: h - 1 };
  const history = [1, 0, 1, 0, 1, 0, 1, 0, 1].map((v) => {
    const [before, after] = [new Uint8Array(w * h).fill(1 - v), new Uint8Array(w * h).fill(v)];
    return { box, before, after };
  });
  mask.fill(1);
  const again = decode(encode({ w, h, mask, history, future: [], points: [], origin: null }));
  assert.ok(again.history.length >= 1 && again.history.length < history.length, `${again.history.length}`);
  assert.equal(again.history.at(-1)?.before[0], 0);
});
