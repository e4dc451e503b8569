import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { bounds, inside, nearest } from '../../../app/widgets/clusters/js/find.js';
import { join, titleOf, widen } from '../../../app/widgets/clusters/js/model.js';
import { radiusFor, shuffled } from '../../../app/widgets/clusters/js/paint.js';
import { categoryColours, colouring, css, ramp } from '../../../app/widgets/clusters/js/palette.js';
import { valueText } from '../../../app/widgets/clusters/js/pane.js';
import { random } from './browser.js';

/** @param {number} n @param {number} seed */
function points(n, seed) {
  const next = random(seed);
  return Float32Array.from({ length: 2 * n }, () => next() * 10 - 5);
}

test('the lasso selects the visible points by the even-odd rule', () => {
  const at = points(500, 1);
  const visible = Uint8Array.from({ length: 500 }, (_, i) => (i % 5 ? 1 : 0));
  const star = Array.from({ length: 10 }, (_, k) => {
    const r = k % 2 ? 1.5 : 4.5;
    return [r * Math.cos((k * Math.PI) / 5), r * Math.sin((k * Math.PI) / 5)];
  });
  const expected = [];
  for (let i = 0; i < 500; i += 1) {
    let crossings = 0; // of a ray to the right
    star.forEach(([x0, y0], k) => {
      const [x1, y1] = star[(k + 1) % star.length];
      const [x, y] = [at[2 * i], at[2 * i + 1]];
      if (y0 > y !== y1 > y && x < x0 + ((y - y0) * (x1 - x0)) / (y1 - y0)) crossings += 1;
    });
    if (visible[i] && crossings % 2) expected.push(i);
  }
  assert.ok(expected.length > 50);
  assert.deepEqual(inside(at, visible, star.flat()), expected);
});

test('the nearest visible point within reach, as a search through all points finds it', () => {
  const at = points(300, 2);
  const visible = Uint8Array.from({ length: 300 }, (_, i) => (i % 3 ? 1 : 0));
  const next = random(3);
  for (let round = 0; round < 100; round += 1) {
    const [x, y] = [next() * 12 - 6, next() * 12 - 6];
    let [best, least] = [-1, 0.5];
    for (let i = 0; i < 300; i += 1) {
      const d = Math.hypot(at[2 * i] - x, at[2 * i + 1] - y);
      if (visible[i] && d < least) [best, least] = [i, d];
    }
    assert.equal(nearest(at, visible, x, y, 0.5), best);
  }
});

test('bounds of points', () => {
  assert.deepEqual(bounds([1, 9, -2, 3, 4, 5]), { x0: -2, y0: 3, x1: 4, y1: 9 });
});

test('colours: one per class, a ramp for numbers, the unknown behind', () => {
  const names = ['Normal, training', 'A\u2081, one lesion', 'A\u2082, two lesions', 'x', 'y', '\u2013'];
  const table = categoryColours(names);
  assert.equal(new Set(table).size, names.length);
  assert.equal(css(0x030201), 'rgb(1 2 3)');
  assert.notEqual(ramp(0), ramp(1));
  assert.equal(ramp(-1), ramp(0));
  const column = { name: 'class', title: 'Class', names: ['a', '\u2013'], codes: [0, 1, 0] };
  const classes = colouring(column, new Set(['a']));
  assert.deepEqual([...classes.visible], [0, 1, 0]);
  assert.deepEqual([...(classes.counts || [])], [2, 1]);
  assert.deepEqual([...(classes.back || [])], [0, 1, 0]);
  const numbers = colouring({ name: 'score', title: 'Score', values: [2, null, 8] }, new Set(['unknown']));
  assert.deepEqual([numbers.low, numbers.high, numbers.unknown], [2, 8, 1]);
  assert.deepEqual([numbers.colours[0], numbers.colours[2]], [ramp(0), ramp(1)]);
  assert.deepEqual([...numbers.visible], [1, 0, 1]);
});

test('points are drawn in a fixed shuffle, projected ones last, fewer ones larger', () => {
  const order = shuffled(50, 40);
  const sorted = [...order].sort((a, b) => a - b);
  assert.ok(sorted.length === 50 && sorted.every((v, i) => v === i));
  assert.deepEqual(order, shuffled(50, 40));
  assert.ok([...order].slice(40).every((i) => i >= 40));
  assert.ok(radiusFor(100) > radiusFor(1e5));
});

test('projected sets lie behind the own points in every epoch', () => {
  const set = /** @type {any} */ ({
    key: 'k',
    title: 'new',
    names: ['p', 'q'],
    cases: [9, -1],
    coords: Float32Array.from([50, 51, 52, 53, 60, 61, 62, 63]),
  });
  const map = {
    base: '/m',
    coords: Float32Array.from([0, 1, 10, 11]),
    n: 1,
    epochs: 2,
    ids: Float64Array.of(5),
    cases: [3],
    lesions: [0],
  };
  const whole = join(map, [set]);
  assert.deepEqual([...whole.coords], [0, 1, 50, 51, 52, 53, 10, 11, 60, 61, 62, 63]);
  assert.equal(whole.ids[1], 9 * 64, 'a case is known by its case');
  assert.ok(whole.ids[2] < 0, 'a file of no study has a number below zero');
  assert.deepEqual([whole.url(0), whole.url(2)], ['/m/points/0', '/m/placed/k/1']);
  const classes = widen({ name: 'class', title: 'Class', names: ['a'], codes: [0] }, whole);
  assert.deepEqual(classes.names, ['a', 'Placed: new']);
  assert.deepEqual(classes.codes, [0, 1, 1]);
  assert.deepEqual(widen({ name: 's', title: 'S', values: [1] }, whole).values, [1, null, null]);
});

test('a map is named by its settings; a point by its class or number', () => {
  const config = /** @type {any} */ ({ method: 'tsne', feature: 'centred', seed: 3 });
  assert.equal(
    titleOf({ config, run_name: 'run', epochs: [0, 4], count: 1200 }),
    't-SNE of centred features · run · epochs 0–4 · 1,200 points · seed 3',
  );
  assert.equal(valueText({ name: 'tag', title: 'Tag', names: ['–', 'x'], codes: [0, 1] }, 0), 'no tag');
  assert.equal(valueText({ name: 's', title: 'S', values: [null, 0.5] }, 0), 'not scored');
});
