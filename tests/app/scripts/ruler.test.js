import assert from 'node:assert/strict';
import test from 'node:test';
import { length } from '../../../app/widgets/review/js/ruler.js';

const A = { x: 10, y: 20 };
const B = { x: 40, y: 60 };

test('a length is in pixels where nothing is known of them', () => {
  assert.equal(length(A, B), '50.0 px');
  assert.equal(length(A, B, null), '50.0 px');
});

test('and in millimetres by the spacing of columns and rows', () => {
  assert.equal(length(A, B, { x: 0.5, y: 0.25, at: 'patient' }), '18.0 mm (50.0 px)');
  assert.equal(length(A, B, { x: 0.1, y: 0.1, at: 'detector' }), '5.0 mm at the detector (50.0 px)');
});
