import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { aligned, label, limits, valueAt } from '../../../app/static/series.js';

/** @param {[number, number | null][]} points */
const line = (points) => ({ name: 'x', points });

test('lines share one axis: no point is drawn through, no value interrupts', () => {
  const [xs, a, b] = aligned([
    line([
      [0, 1],
      [2, null],
      [4, 3],
    ]),
    line([[1, 5]]),
  ]);
  assert.deepEqual(xs, [0, 1, 2, 4]);
  assert.deepEqual(a, [1, undefined, null, 3]);
  assert.deepEqual(b, [undefined, 5, undefined, undefined]);
});

test('limits hold all values and levels with room, and fixed ones stay', () => {
  const [low, high] = limits([1, null, 3], { lines: [{ at: 5, label: 'x' }] });
  assert.ok(low < 1 && low > 0.5 && high > 5 && high < 5.5);
  assert.deepEqual(limits([0.2, 0.9], { low: 0, high: 1 }), [0, 1]);
  const [from, to] = limits([2, 2], {});
  assert.ok(from < 2 && to > 2, 'a constant has room on both sides');
  assert.deepEqual(limits([], {}), [0, 1]);
});

test('the legend has the value nearest to the crosshair, or the last', () => {
  const l = line([
    [0, 1],
    [10, 2],
    [20, 3],
  ]);
  assert.equal(valueAt(l, 14), 2);
  assert.equal(valueAt(l, null), 3);
});

test('numbers of a chart are short', () => {
  assert.deepEqual([0, 0.12345, 1234.5, 0.00001, null].map(label), ['0', '0.123', '1235', '1.0e-5', '–']);
});
