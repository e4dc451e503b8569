import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { partsOf, Shelf } from '../../../app/widgets/review/js/layers.js';
import { alike, nextUnread } from '../../../app/widgets/review/js/list.js';
import { namesLabel } from '../../../app/widgets/review/js/reference.js';
import { isPeak, nextPeak } from '../../../app/widgets/review/js/timeline.js';
import { View } from '../../../app/widgets/review/js/view.js';

test('a peak exceeds all frames around it; of a plateau the first frame counts', () => {
  const scores = [0, 1, 5, 1, 0, null, 3, 3, 1, 0];
  const peaks = scores.map((_, i) => isPeak(scores, i, 2)).flatMap((yes, i) => (yes ? [i] : []));
  assert.deepEqual(peaks, [2, 6]);
  assert.equal(nextPeak(scores, 2, 2), 6);
  assert.equal(nextPeak(scores, 6, 2), 2, 'round the end');
  assert.equal(nextPeak(scores, 0, 9), 2, 'a wider reach leaves one');
  assert.equal(nextPeak([null, null], 0), -1);
});

test('zooming keeps the pixel under the pointer where it is', () => {
  const view = new View(() => {});
  view.setPane(800, 600);
  view.setImage(1000, 1000);
  assert.equal(view.scale, 0.6);
  const before = view.toImage(500, 300);
  view.zoomAt(500, 300, 3);
  const after = view.toImage(500, 300);
  assert.ok(Math.hypot(after.x - before.x, after.y - before.y) < 1e-9);
  view.pan(1e6, 0);
  assert.ok(view.dx <= 800 - 40, 'some of the image stays in sight');
});

test('fetched objects are cached, the oldest is dropped, and a failure is not cached', async () => {
  let made = 0;
  const shelf = new Shelf(
    async (/** @type {number} */ n) => {
      made += 1;
      if (n < 0) throw new Error('no');
      return { n };
    },
    () => 1,
    2,
  );
  await shelf.get('1', 1);
  await shelf.get('1', 1);
  assert.equal(made, 1);
  await shelf.get('2', 2);
  await shelf.get('1', 1); // now the one used last
  await shelf.get('3', 3);
  assert.deepEqual([...shelf.held.keys()], ['1', '3']);
  await assert.rejects(shelf.get('-1', -1));
  await new Promise((go) => setTimeout(go));
  assert.equal(shelf.has('-1'), false);
});

test('a pack is split into its parts', () => {
  const head = new TextEncoder().encode(
    JSON.stringify([
      { name: 'image', bytes: 3, headers: {} },
      { name: 'mask', bytes: 2, headers: { id: 7 } },
    ]),
  );
  const packed = new Uint8Array(4 + head.length + 5);
  new DataView(packed.buffer).setUint32(0, head.length, true);
  packed.set(head, 4);
  packed.set([1, 2, 3, 8, 9], 4 + head.length);
  const { image, mask } = partsOf(packed.buffer);
  assert.deepEqual([...new Uint8Array(/** @type {any} */ (image).buffer)], [1, 2, 3]);
  assert.deepEqual([...new Uint8Array(/** @type {any} */ (mask).buffer)], [8, 9]);
  assert.equal(mask?.headers.get('id'), 7);
});

test('names that reveal the label are recognised', () => {
  for (const name of ['abnormal_12.png', 'test/normal/3', 'polyp-4', 'Lesion 2', 'good 001', 'brain tumour 3'])
    assert.ok(namesLabel(name), name);
  for (const name of ['a08.png', 'IMG_2031', 'goodman 3', 'normalised 1', 'frame 12'])
    assert.ok(!namesLabel(name), name);
});

test('the list shows scores if most cases are above all held-out normals', () => {
  const rows = (/** @type {(number | null)[]} */ values) =>
    values.map((percentile) => /** @type {any} */ ({ percentile }));
  assert.equal(alike(rows([100, 100, 100, 99.96, 40])), true);
  assert.equal(alike(rows([100, 80, 60, 40, 20])), false);
  assert.equal(alike(rows([100, null, null])), false);
});

const decided = (/** @type {string[]} */ ...decisions) =>
  decisions.map((decision, i) => ({ row: { id: i + 1, decision: decision || null } }));

test('the next unread row follows the case on screen, else it is the first one of a complete list', () => {
  const list = decided('', 'normal', '', 'abnormal', '');
  assert.equal(nextUnread(list, 1, true)?.row.id, 3);
  assert.equal(nextUnread(list, 3, true)?.row.id, 5);
  assert.equal(nextUnread(list, 5, true)?.row.id, 1);
  assert.equal(nextUnread(list, 5, false), null, 'rows that have not been fetched may hold one');
  assert.equal(nextUnread(list, undefined, true)?.row.id, 1);
  assert.equal(nextUnread(decided('', 'normal'), 1, true), null, 'the case on screen is not the next one');
  assert.equal(nextUnread([], 4, true), null);
});
