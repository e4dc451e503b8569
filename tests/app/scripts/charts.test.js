import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { aligned, label, limits, valueAt } from '../../../app/static/chart.js';

/** @param {number[]} xs @param {(number | null)[]} ys */
const line = (xs, ys) => ({ name: 'x', points: xs.map((x, i) => /** @type {Answers.Point} */ ([x, ys[i]])) });

test('lines share one axis: no point is drawn through, no value interrupts', () => {
  const [xs, a, b] = aligned([line([0, 2, 4], [1, null, 3]), line([1], [5])]);
  assert.deepEqual(xs, [0, 1, 2, 4]);
  assert.deepEqual(a, [1, undefined, null, 3]);
  assert.deepEqual(b, [undefined, 5, undefined, undefined]);
});

test('limits contain all values and levels with a margin; fixed limits stay', () => {
  const [low, high] = limits([line([0, 1, 2], [1, null, 3])], { lines: [{ at: 5, label: 'x' }] });
  assert.ok(low < 1 && low > 0.5 && high > 5 && high < 5.5);
  assert.deepEqual(limits([line([0, 1], [0.2, 0.9])], { low: 0, high: 1 }), [0, 1]);
  const [from, to] = limits([line([0, 1], [2, 2])], {});
  assert.ok(from < 2 && to > 2, 'a constant has room on both sides');
  assert.deepEqual(limits([], {}), [0, 1]);
});

test('the legend has the value nearest to the crosshair, or the last', () => {
  const l = line([0, 10, 20], [1, 2, 3]);
  assert.equal(valueAt(l, 14), 2);
  assert.equal(valueAt(l, null), 3);
});

test('numbers of a chart are short', () => {
  assert.deepEqual([0, 0.12345, 1234.5, 0.00001, null].map(label), ['0', '0.123', '1235', '1.0e-5', '–']);
});
