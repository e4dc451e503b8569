import assert from 'node:assert/strict';
import test from 'node:test';
import { fillComponent } from '../../../app/widgets/review/js/editor.js';
import { boxOf, componentAt, components, fillHoles, smooth } from '../../../app/widgets/review/js/regions.js';
import { linesOf, maskOf, random } from './browser.js';

/** Number of 8-connected components, by flooding. @param {Uint8Array} mask @param {number} w @param {number} h */
function flooded(mask, w, h) {
  const seen = mask.slice();
  let count = 0;
  for (let start = 0; start < seen.length; start += 1) {
    if (!seen[start]) continue;
    count += 1;
    const stack = [start];
    seen[start] = 0;
    while (stack.length) {
      const i = Number(stack.pop());
      for (const dy of [-1, 0, 1])
        for (const dx of [-1, 0, 1]) {
          const [x, y] = [(i % w) + dx, Math.floor(i / w) + dy];
          if (x < 0 || y < 0 || x >= w || y >= h || !seen[y * w + x]) continue;
          seen[y * w + x] = 0;
          stack.push(y * w + x);
        }
    }
  }
  return count;
}

test('components are counted as flooding counts them', () => {
  const next = random(11);
  for (let round = 0; round < 60; round += 1) {
    const mask = Uint8Array.from({ length: 17 * 12 }, () => (next() < 0.15 + round / 100 ? 1 : 0));
    const field = { w: 17, h: 12, values: Float32Array.from(mask) };
    assert.equal(components(field, 0.5), flooded(mask, 17, 12), `round ${round}`);
  }
});

test('a component is what hangs together with the point, corners included', () => {
  const { w, h, mask } = maskOf(['#...#', '.#...', '..#.#', '....#']);
  const field = { w, h, values: Float32Array.from(mask) };
  const found = componentAt(field, 0.5, 0, 0);
  assert.ok(found);
  assert.deepEqual(linesOf(found.inside, w), ['#....', '.#...', '..#..', '.....']);
  assert.deepEqual(found.box, { x0: 0, y0: 0, x1: 2, y1: 2 });
  assert.equal(componentAt(field, 0.5, 3, 0), null);
  assert.equal(componentAt(field, 0.5, 9, 0), null);
});

test('a component of the heat map is painted at the pixels of the image, and no other', () => {
  const { w, h, mask } = maskOf(['......', '.##...', '.##...', '....##', '......']);
  const values = Float32Array.from(mask);
  const field = { w, h, values };
  const map = /** @type {any} */ ({ w, h, values });
  const found = componentAt(field, 0.5, 1, 1);
  assert.ok(found);
  const painted = new Uint8Array(12 * 10);
  fillComponent(painted, 12, 10, { map, field, level: 0.5, ...found });
  const box = boxOf(painted, 12, 10);
  assert.ok(box && box.x0 >= 1 && box.x1 <= 7 && box.y0 >= 1 && box.y1 <= 7);
  for (const at of [2, 5]) assert.equal(painted[at * 12 + at], 1);
  assert.equal(painted[6 * 12 + 10], 0, 'the other component');
});

test('holes are filled, bays are not', () => {
  const { w, h, mask } = maskOf(['.#####.', '.#...#.', '.#.#.#.', '.#...#.', '.#####.', '.......', '#.#....']);
  fillHoles(mask, w, h);
  assert.deepEqual(linesOf(mask, w), ['.#####.', '.#####.', '.#####.', '.#####.', '.#####.', '.......', '#.#....']);
  const bay = maskOf(['###', '#..', '###']);
  fillHoles(bay.mask, 3, 3);
  assert.deepEqual(linesOf(bay.mask, 3), ['###', '#..', '###']);
  assert.equal(fillHoles(new Uint8Array(4), 2, 2), null);
});

test('smoothing is the majority of a square', () => {
  const next = random(5);
  const [w, h, r] = [15, 11, 2];
  const mask = Uint8Array.from({ length: w * h }, () => (next() < 0.6 ? 1 : 0));
  const before = mask.slice();
  smooth(mask, w, h, r);
  for (let y = 0; y < h; y += 1)
    for (let x = 0; x < w; x += 1) {
      let sum = 0;
      for (let v = Math.max(y - r, 0); v <= Math.min(y + r, h - 1); v += 1)
        for (let u = Math.max(x - r, 0); u <= Math.min(x + r, w - 1); u += 1) sum += before[v * w + u];
      assert.equal(mask[y * w + x], sum > (2 * r + 1) ** 2 / 2 ? 1 : 0, `${x},${y}`);
    }
});
