import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { inSight, layout, moved, Pages, pageOf, Selection } from '../../../app/widgets/review/js/grid_moves.js';

const FOUR = layout(4 * 180 + 3 * 10, 180);

test('tiles fill the width, with at least one column', () => {
  assert.deepEqual([FOUR.columns, FOUR.tile], [4, 180]);
  const narrow = layout(100, 180);
  assert.deepEqual([narrow.columns, narrow.tile], [1, 100]);
  for (const width of [333, 780, 1104, 1500]) {
    const { columns, tile, gap } = layout(width, 184);
    assert.ok(columns * tile + (columns - 1) * gap <= width && tile >= 184);
  }
});

test('of ten thousand tiles only the visible ones exist, with one row before and after', () => {
  const [first, last] = inSight(FOUR, 1000 * FOUR.row, 600, 10_000);
  assert.equal(first, 999 * 4);
  assert.ok(last - first <= 4 * (Math.ceil(600 / FOUR.row) + 3));
  assert.deepEqual(inSight(FOUR, 0, 600, 3), [0, 3]);
  assert.deepEqual(inSight(FOUR, 0, 600, 0), [0, 0]);
});

test('keys move the cursor within the list', () => {
  const at = (/** @type {string} */ key, /** @type {number} */ from) => moved(key, from, 10, FOUR, 2);
  assert.deepEqual([at('ArrowRight', 3), at('ArrowLeft', 3), at('ArrowDown', 3), at('ArrowUp', 7)], [4, 2, 7, 3]);
  assert.deepEqual([at('ArrowLeft', 0), at('ArrowRight', 9), at('ArrowUp', 2), at('ArrowDown', 9)], [0, 9, 2, 9]);
  assert.equal(at('ArrowDown', 7), 9, 'into the short last row');
  assert.deepEqual([at('Home', 7), at('End', 2), at('PageDown', 1), at('PageUp', 6)], [0, 9, 5, 2]);
  assert.deepEqual([at('PageDown', 8), at('PageUp', 2)], [9, 2]);
  assert.equal(at('n', 2), null);
});

test('a range grows and shrinks from where it began; single cases stay', () => {
  const chosen = new Selection();
  const id = (/** @type {number} */ at) => 100 + at;
  chosen.toggle(100, 0);
  chosen.anchor = null; // the cursor moved on
  chosen.extend(3, 5, id);
  assert.deepEqual([...chosen.ids].sort(), [100, 103, 104, 105]);
  chosen.extend(5, 4, id);
  assert.deepEqual([...chosen.ids].sort(), [100, 103, 104]);
  chosen.extend(4, 2, id);
  assert.deepEqual([...chosen.ids].sort(), [100, 102, 103]);
  chosen.toggle(100, 0);
  assert.ok(!chosen.ids.has(100));
  chosen.clear();
  assert.equal(chosen.ids.size, 0);
});

test('each page is fetched once, and an answer for another list is dropped', async () => {
  /** @type {[number, (rows: {id: number}[] | null) => void][]} */
  const waiting = [];
  const pages = new Pages((at) => new Promise((done) => waiting.push([at, done])), 10);
  pages.reset(25);
  const both = Promise.all([pages.ensure(8, 12), pages.ensure(0, 9)]);
  assert.equal(waiting.map(([at]) => at).join(), '0,10');
  for (const [at, done] of waiting) done(Array.from({ length: 10 }, (_, i) => ({ id: at + i })));
  await both;
  assert.deepEqual([pages.row(9)?.id, pages.row(19)?.id, pages.row(20), pages.find(12)?.id], [9, 19, undefined, 12]);
  const late = pages.ensure(20, 25);
  pages.reset(3);
  waiting[2][1]([{ id: 77 }]);
  await late;
  assert.equal(pages.row(20), undefined);
  const failed = pages.ensure(0, 3);
  waiting[3][1](null);
  await failed;
  pages.ensure(0, 3);
  assert.equal(waiting.length, 5, 'asked again after a failure');
  assert.deepEqual([pageOf(0), pageOf(99), pageOf(100), pageOf(9999)], [0, 0, 100, 9900]);
});
