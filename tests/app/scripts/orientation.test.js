import assert from 'node:assert/strict';
import test from 'node:test';
import { steps } from '../../../app/widgets/review/js/image.js';
import {
  fromSeen,
  inWords,
  matrix,
  seenSize,
  TURNS,
  toSeen,
  UPRIGHT,
  View,
} from '../../../app/widgets/review/js/view.js';
import { random } from './browser.js';

const IMAGE = { w: 7, h: 5 };
const ALL = [UPRIGHT];
for (const turn of ALL) // grows while it is walked through: all that flips and turns lead to
  for (const how of Object.values(TURNS)) {
    const next = how(turn);
    if (!ALL.some((one) => JSON.stringify(one) === JSON.stringify(next))) ALL.push(next);
  }

test('flips and turns lead to eight orientations, and back', () => {
  assert.equal(ALL.length, 8);
  for (const turn of ALL) {
    const { across, down, right } = TURNS;
    for (const back of [across(across(turn)), down(down(turn)), right(right(right(right(turn))))])
      assert.deepEqual(back, turn);
    assert.deepEqual(right(right(turn)), across(down(turn)));
  }
  assert.equal(new Set(ALL.map(inWords)).size, 8, 'each is called differently');
  assert.equal(inWords(UPRIGHT), '');
});

test('flips and turns move the corners', () => {
  const seen = (/** @type {string} */ how, /** @type {number} */ x, /** @type {number} */ y) =>
    toSeen(TURNS[how](UPRIGHT), IMAGE, { x, y });
  assert.deepEqual(seen('across', 0, 0), { x: 7, y: 0 });
  assert.deepEqual(seen('down', 0, 0), { x: 0, y: 5 });
  assert.deepEqual(seen('right', 0, 0), { x: 5, y: 0 }, 'the upper left corner goes to the upper right');
  assert.deepEqual(seen('right', 7, 0), { x: 5, y: 7 });
});

test('positions convert to the view and back, as the canvas draws them', () => {
  const draw = random(3);
  for (const turn of ALL) {
    const { w, h } = seenSize(turn, IMAGE);
    for (let i = 0; i < 20; i += 1) {
      const p = { x: draw() * IMAGE.w, y: draw() * IMAGE.h };
      const at = toSeen(turn, IMAGE, p);
      assert.ok(at.x >= 0 && at.x <= w && at.y >= 0 && at.y <= h);
      const back = fromSeen(turn, IMAGE, at);
      assert.ok(Math.hypot(back.x - p.x, back.y - p.y) < 1e-12);
      const [a, b, c, d, e, f] = matrix({ scale: 3, dx: 11, dy: 13, turn }, IMAGE, 2);
      assert.ok(Math.abs(a * p.x + c * p.y + e - 2 * (3 * at.x + 11)) < 1e-9);
      assert.ok(Math.abs(b * p.x + d * p.y + f - 2 * (3 * at.y + 13)) < 1e-9);
    }
  }
});

test('turning keeps zoom and centre, and a reset restores the stored orientation', () => {
  const view = new View(() => {});
  view.setPane(800, 600);
  view.setImage(1000, 500);
  view.zoomAt(300, 200, 4);
  for (const how of Object.values(TURNS)) {
    const { scale } = view;
    const before = view.toImage(400, 300);
    view.reorient(how);
    const after = view.toImage(400, 300);
    assert.ok(Math.hypot(after.x - before.x, after.y - before.y) < 1e-9 && view.scale === scale);
    const under = view.toImage(123, 456);
    view.zoomAt(123, 456, 1.1);
    const still = view.toImage(123, 456);
    assert.ok(Math.hypot(still.x - under.x, still.y - under.y) < 1e-9);
  }
  view.fit();
  assert.equal(view.scale, 0.6, 'a picture of 500 x 1000, as it is seen');
  view.reset();
  assert.deepEqual([view.turn, view.scale, view.toImage(0, 100)], [UPRIGHT, 0.8, { x: 0, y: 0 }]);
  view.pan(1e6, 0);
  assert.ok(view.dx <= 800 - 40, 'some of the image stays in sight');
});

test('a raw image is drawn pixel by pixel in each orientation', () => {
  for (const turn of ALL) {
    const seen = seenSize(turn, IMAGE);
    const lie = { scale: 2, dx: 3, dy: 1, turn };
    const { columns, rows } = steps(lie, IMAGE, 24, 18);
    for (let y = 0; y < 18; y += 1)
      for (let x = 0; x < 24; x += 1) {
        const [u, v] = [(x + 0.5 - 3) / 2, (y + 0.5 - 1) / 2];
        const inside = u >= 0 && v >= 0 && u < seen.w && v < seen.h;
        assert.equal(columns[x] >= 0 && rows[y] >= 0, inside);
        if (!inside) continue;
        const p = fromSeen(turn, IMAGE, { x: u, y: v });
        assert.equal(columns[x] + rows[y], Math.floor(p.y) * IMAGE.w + Math.floor(p.x));
      }
  }
});
