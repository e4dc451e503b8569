import assert from 'node:assert/strict';
import test from 'node:test';
import { fillComponent } from '../../../app/widgets/review/js/editor.js';
import {
  boxOf,
  componentAt,
  components,
  contour,
  cut,
  fillHoles,
  outline,
  pack,
  paste,
  polygon,
  smooth,
  stroke,
  unpack,
} from '../../../app/widgets/review/js/shapes.js';
import { linesOf, maskOf, Pen, random } from './browser.js';

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
  polygon(mask, 8, 6, corners([1, 6, 6, 1], [1, 1, 5, 5]), 1);
  assert.deepEqual(boxOf(mask, 8, 6), { x0: 1, y0: 1, x1: 5, y1: 4 });
  assert.deepEqual(linesOf(mask, 8), ['........', '.#####..', '.#####..', '.#####..', '.#####..', '........']);
  const bow = new Uint8Array(36); // crossing itself: both halves are inside
  polygon(bow, 6, 6, corners([0, 6, 6, 0], [0, 6, 0, 6]), 1);
  assert.equal(bow[2 * 6 + 0], 1);
  assert.equal(bow[0 * 6 + 3], 0);
});

test('a part cut out of a mask is restored unchanged', () => {
  const next = random(1);
  const mask = Uint8Array.from({ length: 60 }, () => (next() > 0.5 ? 1 : 0));
  const box = { x0: 2, y0: 1, x1: 6, y1: 4 };
  const changed = mask.slice();
  for (let y = 1; y <= 4; y += 1) changed.fill(1, y * 10 + 2, y * 10 + 7);
  paste(changed, 10, box, cut(mask, 10, box));
  assert.deepEqual(changed, mask);
});

test('bits are packed from the highest on, as numpy.packbits does, and come back', () => {
  assert.deepEqual([...pack(Uint8Array.from([1, 0, 0, 0, 0, 0, 1, 1, 1]))], [0b10000011, 0b10000000]);
  const next = random(3);
  const mask = Uint8Array.from({ length: 101 }, () => (next() > 0.3 ? 1 : 0));
  assert.deepEqual(unpack(pack(mask), 101), mask);
});

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

test('a component is the region connected with the point, corners included', () => {
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
  fillComponent(painted, 12, 10, { map, cut: field, level: 0.5 }, found);
  const box = boxOf(painted, 12, 10);
  assert.ok(box && box.x0 >= 1 && box.x1 <= 7 && box.y0 >= 1 && box.y1 <= 7);
  for (const [x, y] of [
    [2, 2],
    [5, 5],
  ])
    assert.equal(painted[y * 12 + x], 1);
  assert.equal(painted[6 * 12 + 10], 0, 'the other component');
});

test('holes are filled, bays are not', () => {
  const { w, h, mask } = maskOf(['.#####.', '.#...#.', '.#.#.#.', '.#...#.', '.#####.', '.......', '#.#....']);
  fillHoles(mask, w, h);
  assert.deepEqual(linesOf(mask, w), ['.#####.', '.#####.', '.#####.', '.#####.', '.#####.', '.......', '#.#....']);
  const bay = maskOf(['###', '#..', '###']);
  fillHoles(bay.mask, 3, 3);
  assert.deepEqual(linesOf(bay.mask, 3), ['###', '#..', '###']);
  const none = new Uint8Array(4);
  fillHoles(none, 2, 2);
  assert.ok(none.every((v) => v === 0));
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

/** Length of all segments, and whether every end is met by another end. @param {Pen} pen */
function measured({ segments }) {
  const length = segments.reduce((sum, [x0, y0, x1, y1]) => sum + Math.hypot(x1 - x0, y1 - y0), 0);
  /** @type {Map<string, number>} */
  const ends = new Map();
  for (const [x0, y0, x1, y1] of segments)
    for (const end of [`${x0.toFixed(6)},${y0.toFixed(6)}`, `${x1.toFixed(6)},${y1.toFixed(6)}`])
      ends.set(end, (ends.get(end) || 0) + 1);
  return { length, closed: [...ends.values()].every((n) => n % 2 === 0) };
}

test('a disc has the circumference of its radius', () => {
  const [w, h, r] = [64, 48, 15];
  const values = Float32Array.from(
    { length: w * h },
    (_, i) => r - Math.hypot((i % w) + 0.5 - 32, Math.floor(i / w) + 0.5 - 24),
  );
  const pen = new Pen();
  contour({ w, h, values }, 0, pen);
  const { length, closed } = measured(pen);
  assert.ok(closed);
  assert.ok(Math.abs(length / (2 * Math.PI * r) - 1) < 0.01, `length ${length}`);
});

test('the line crosses where the field does, between the centres of cells', () => {
  const pen = new Pen();
  contour({ w: 2, h: 1, values: Float32Array.from([0, 1]) }, 0.25, pen);
  const xs = pen.segments.flat().filter((_, k) => k % 2 === 0);
  assert.equal(Math.min(...xs), 0.75); // cell centres lie at 0.5 and 1.5
});

test('a region at the border is closed along it; a field below the level has no line', () => {
  const pen = new Pen();
  contour({ w: 3, h: 3, values: new Float32Array(9).fill(1) }, 0.5, pen);
  const { length, closed } = measured(pen);
  assert.ok(closed && length > 8, `length ${length}`);
  const none = new Pen();
  contour({ w: 3, h: 3, values: new Float32Array(9) }, 0.5, none);
  assert.equal(none.segments.length, 0);
});

test('the lines of any field are closed', () => {
  const next = random(7);
  for (let round = 0; round < 20; round += 1) {
    const pen = new Pen();
    contour({ w: 13, h: 9, values: Float32Array.from({ length: 117 }, next) }, 0.5, pen);
    assert.ok(measured(pen).closed);
  }
});

test('a large mask is reduced to fewer cells without losing a lesion pixel', () => {
  const { w, h, mask } = maskOf(['........', '........', '.....#..', '........']);
  const found = outline(mask, w, h, 4);
  assert.equal(found.scale, 2);
  assert.ok(/** @type {any} */ (found.path).segments.length > 0);
});
