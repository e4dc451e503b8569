import assert from 'node:assert/strict';
import test from 'node:test';
import { between, isBox } from '../../../app/widgets/review/js/place.js';

const IMAGE = { w: 100, h: 80 };

test('a drag in any direction is a box inside the image', () => {
  assert.deepEqual(between({ x: 60, y: 70 }, { x: 20, y: 10 }, IMAGE, 4), [20, 10, 60, 70]);
  assert.deepEqual(between({ x: -5, y: 10 }, { x: 120, y: 90 }, IMAGE, 4), [0, 10, 100, 80]);
});

test('a click that shakes stays a point', () => {
  const corners = between({ x: 20, y: 10 }, { x: 22, y: 12 }, IMAGE, 4);
  assert.deepEqual(corners, [20, 10, 20, 10]);
  assert.equal(isBox(corners), false);
  assert.equal(isBox([1, 1, 1, 5]), true);
});
