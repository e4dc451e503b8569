import assert from 'node:assert/strict';
import test from 'node:test';
import { cut, join, pack, paste, polygon, stroke, unpack } from '../../../app/widgets/review/js/shapes.js';
import { linesOf, random } from './browser.js';

test('a stroke covers the pixels whose centre is within the radius of its line', () => {
  const [w, h, r] = [24, 16, 3.2];
  const a = { x: 5.3, y: 4.1 };
  const b = { x: 17.8, y: 11.2 };
  const mask = new Uint8Array(w * h);
  const box = stroke(mask, w, h, a, b, r, 1);
  assert.ok(box);
  for (let i = 0; i < mask.length; i += 1) {
    const [px, py] = [(i % w) + 0.5, Math.floor(i / w) + 0.5];
    const along = ((px - a.x) * (b.x - a.x) + (py - a.y) * (b.y - a.y)) / ((b.x - a.x) ** 2 + (b.y - a.y) ** 2);
    const t = Math.min(Math.max(along, 0), 1);
    const far = Math.hypot(px - a.x - t * (b.x - a.x), py - a.y - t * (b.y - a.y));
    assert.equal(mask[i], far <= r ? 1 : 0, `pixel ${px},${py}`);
  }
  stroke(mask, w, h, a, b, r, 0);
  assert.ok(mask.every((v) => v === 0));
});

test('a stroke outside the image touches nothing', () => {
  const mask = new Uint8Array(16);
  assert.equal(stroke(mask, 4, 4, { x: -9, y: -9 }, { x: -8, y: -9 }, 2, 1), null);
  assert.ok(mask.every((v) => v === 0));
});

/** @param {number[]} xs @param {number[]} ys */
const corners = (xs, ys) => xs.map((x, i) => ({ x, y: ys[i] }));

test('a polygon fills the pixels whose centre it holds, by the even-odd rule', () => {
  const mask = new Uint8Array(8 * 6);
  assert.deepEqual(polygon(mask, 8, 6, corners([1, 6, 6, 1], [1, 1, 5, 5]), 1), { x0: 1, y0: 1, x1: 5, y1: 5 });
  assert.deepEqual(linesOf(mask, 8), ['........', '.#####..', '.#####..', '.#####..', '.#####..', '........']);
  const bow = new Uint8Array(36); // crossing itself: both halves are inside
  polygon(bow, 6, 6, corners([0, 6, 6, 0], [0, 6, 0, 6]), 1);
  assert.equal(bow[2 * 6 + 0], 1);
  assert.equal(bow[0 * 6 + 3], 0);
});

test('a part of a mask is put back as it was', () => {
  const next = random(1);
  const mask = Uint8Array.from({ length: 60 }, () => (next() > 0.5 ? 1 : 0));
  const box = { x0: 2, y0: 1, x1: 6, y1: 4 };
  const changed = mask.slice();
  for (let y = 1; y <= 4; y += 1) changed.fill(1, y * 10 + 2, y * 10 + 7);
  paste(changed, 10, box, cut(mask, 10, box));
  assert.deepEqual(changed, mask);
});

test('boxes join', () => {
  const a = { x0: 1, y0: 2, x1: 3, y1: 4 };
  assert.deepEqual(join(a, { x0: 0, y0: 3, x1: 2, y1: 9 }), { x0: 0, y0: 2, x1: 3, y1: 9 });
  assert.equal(join(a, null), a);
});

test('bits are packed from the highest on, as numpy.packbits does, and come back', () => {
  assert.deepEqual([...pack(Uint8Array.from([1, 0, 0, 0, 0, 0, 1, 1, 1]))], [0b10000011, 0b10000000]);
  const next = random(3);
  const mask = Uint8Array.from({ length: 101 }, () => (next() > 0.3 ? 1 : 0));
  assert.deepEqual(unpack(pack(mask), 101), mask);
});
