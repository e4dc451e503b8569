import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { known } from '../../../app/widgets/review/js/controls.js';

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

test('unknown values are skipped', () => {
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
