import assert from 'node:assert/strict';
import test from 'node:test';
import { between, isBox, length } from '../../../app/widgets/review/js/tools.js';

const A = { x: 10, y: 20 };
const B = { x: 40, y: 60 };

test('a length is in pixels if the spacing is unknown', () => {
  assert.equal(length(A, B), '50.0 px');
  assert.equal(length(A, B, null), '50.0 px');
});

test('a length is in millimetres if the spacing of columns and rows is known', () => {
  assert.equal(length(A, B, { x: 0.5, y: 0.25, at: 'patient' }), '18.0 mm (50.0 px)');
  assert.equal(length(A, B, { x: 0.1, y: 0.1, at: 'detector' }), '5.0 mm at the detector (50.0 px)');
});

const IMAGE = { w: 100, h: 80 };

test('a drag in any direction is a box inside the image', () => {
  assert.deepEqual(between({ x: 60, y: 70 }, { x: 20, y: 10 }, IMAGE, 4), [20, 10, 60, 70]);
  assert.deepEqual(between({ x: -5, y: 10 }, { x: 120, y: 90 }, IMAGE, 4), [0, 10, 100, 80]);
});

test('a drag shorter than the minimum is a point', () => {
  const corners = between({ x: 20, y: 10 }, { x: 22, y: 12 }, IMAGE, 4);
  assert.deepEqual(corners, [20, 10, 20, 10]);
  assert.equal(isBox(corners), false);
  assert.equal(isBox([1, 1, 1, 5]), true);
});
