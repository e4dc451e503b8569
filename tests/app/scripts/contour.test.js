import assert from 'node:assert/strict';
import test from 'node:test';
import { contour, outline } from '../../../app/widgets/review/js/contour.js';
import { maskOf, Pen, random } from './browser.js';

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

test('what touches the border is closed along it; nothing above the level draws nothing', () => {
  const pen = new Pen();
  contour({ w: 3, h: 3, values: new Float32Array(9).fill(1) }, 0.5, pen);
  const { length, closed } = measured(pen);
  assert.ok(closed && length > 8, `length ${length}`);
  const none = new Pen();
  contour({ w: 3, h: 3, values: new Float32Array(9) }, 0.5, none);
  assert.equal(none.segments.length, 0);
});

test('any field has closed lines', () => {
  const next = random(7);
  for (let round = 0; round < 20; round += 1) {
    const pen = new Pen();
    contour({ w: 13, h: 9, values: Float32Array.from({ length: 117 }, next) }, 0.5, pen);
    assert.ok(measured(pen).closed);
  }
});

test('a large mask is brought to fewer cells without losing a pixel', () => {
  const { w, h, mask } = maskOf(['........', '........', '.....#..', '........']);
  const found = outline(mask, w, h, 4);
  assert.equal(found.scale, 2);
  assert.ok(/** @type {any} */ (found.path).segments.length > 0);
});
