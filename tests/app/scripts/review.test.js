import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { known } from '../../../app/widgets/review/js/controls.js';
import { partsOf, Shelf } from '../../../app/widgets/review/js/layers.js';
import { alike, nextUnread } from '../../../app/widgets/review/js/list.js';
import { namesLabel } from '../../../app/widgets/review/js/reference.js';
import { isPeak, nextPeak } from '../../../app/widgets/review/js/timeline.js';

test('a peak exceeds all frames around it; of a plateau the first frame counts', () => {
  const scores = [0, 1, 5, 1, 0, null, 3, 3, 1, 0];
  const peaks = scores.map((_, i) => isPeak(scores, i, 2)).flatMap((yes, i) => (yes ? [i] : []));
  assert.deepEqual(peaks, [2, 6]);
  assert.equal(nextPeak(scores, 2, 2), 6);
  assert.equal(nextPeak(scores, 6, 2), 2, 'round the end');
  assert.equal(nextPeak(scores, 0, 9), 2, 'a wider reach leaves one');
  assert.equal(nextPeak([null, null], 0), -1);
});

test('fetched layers are cached, the oldest are dropped, and failures are not cached', async () => {
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
  assert.equal(shelf.held.has('-1'), false);
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

const DETAIL = /** @type {any} */ ({ id: 1, v: 'a', width: 512, height: 480, bits: 12, name: 'x.dcm', split: 'test' });
const ABOUT = { format: 'DICOM', patient: '3f9a2c1b', study: 'chest', added: '2026-11-22T07:00:00Z', text: true };

test('a case under a neutral name shows only its size and depth', () => {
  const rows = known(DETAIL, 'Case ABC');
  assert.deepEqual(rows, [
    ['File', 'Case ABC'],
    ['Size', '512 × 480 pixels'],
    ['Depth', '12 bits'],
  ]);
});

test('known facts of a case are shown, unknown ones omitted', () => {
  const spacing = { x: 0.143, y: 0.143, at: 'detector' };
  const one = { ...DETAIL, spacing, modality: 'CR', frames: 1, about: { ...ABOUT, shown_from: [0, 4095] } };
  const rows = Object.fromEntries(known(one, 'x.dcm'));
  assert.equal(rows.Spacing, '0.143 mm a pixel, at the detector');
  assert.deepEqual([rows['Grey range'], rows.Patient, rows.Study], ['0 to 4095', '3f9a2c1b', 'chest, test']);
  assert.deepEqual([rows.Series, rows.Text], [undefined, 'likely in the image']);
  const slice = { ...DETAIL, spacing: { x: 0.5, y: 0.25, at: 'patient' }, frames: 40, about: ABOUT };
  const other = Object.fromEntries(known(slice, 'x'));
  assert.deepEqual(
    [other.Spacing, other.Series, other['Grey range']],
    ['0.5 × 0.25 mm a pixel', 'one of 40 images', undefined],
  );
});

const decided = (/** @type {string[]} */ ...decisions) =>
  decisions.map((decision, i) => ({ row: { id: i + 1, decision: decision || null } }));

test('the next unread row comes after the case on screen, else from the start of a complete list', () => {
  const list = decided('', 'normal', '', 'abnormal', '');
  assert.equal(nextUnread(list, 1, true)?.row.id, 3);
  assert.equal(nextUnread(list, 3, true)?.row.id, 5);
  assert.equal(nextUnread(list, 5, true)?.row.id, 1);
  assert.equal(nextUnread(list, 5, false), null, 'rows that have not been fetched may hold one');
  assert.equal(nextUnread(list, undefined, true)?.row.id, 1);
  assert.equal(nextUnread(decided('', 'normal'), 1, true), null, 'the case on screen is not the next one');
  assert.equal(nextUnread([], 4, true), null);
});
