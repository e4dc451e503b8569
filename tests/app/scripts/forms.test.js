import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { sliderScale, tidy } from '../../../app/static/fields.js';
import { mentioned } from '../../../app/static/form.js';
import { bytes, fixed, percent, plural, seconds } from '../../../app/static/format.js';
import { nameOf } from '../../../app/widgets/study/importing.js';

test('a logarithmic slider goes there and back', () => {
  const scale = sliderScale({ log: true, min: 1e-6, kind: 'number' });
  for (const v of [1e-6, 3e-4, 0.02, 1]) assert.equal(scale.value(scale.place(v)), v);
  assert.equal(scale.place(0), -6, 'below the least it stands at the least');
});

test('whole numbers are whole', () => {
  const scale = sliderScale({ log: false, min: 0, kind: 'integer' });
  assert.equal(scale.value(3.7), 4);
  assert.equal(sliderScale({ log: false, min: 0, kind: 'number' }).value(0.1 + 0.2), 0.3);
});

test('numbers without needless digits', () => {
  assert.deepEqual([0.1 + 0.2, 5, 12345.678, 0.00012345].map(tidy), ['0.3', '5', '12345.678', '0.0001234']);
});

test('a complaint finds the field it mentions, the longest name first', () => {
  const keys = ['size', 'size_max', 'k'];
  assert.equal(mentioned(keys, 'size_max must be larger'), 'size_max');
  assert.equal(mentioned(keys, 'the size is wrong'), 'size');
  assert.equal(mentioned(keys, 'sizes are wrong'), undefined);
});

test('durations, sizes and shares', () => {
  const durations = [0.25, 5, 60, 600, 7200, Number.NaN];
  assert.equal(durations.map(seconds).join(', '), '250 ms, 5.0 s, 60 s, 10 min, 2.0 h, –');
  assert.deepEqual([12, 1500, 2.5e9, null].map(bytes), ['12 B', '1.5 KB', '2.5 GB', '–']);
  assert.deepEqual([percent(0.1234), percent(1, 0), fixed(null), fixed(1.23456)], ['12.3 %', '100 %', '–', '1.235']);
  assert.deepEqual([plural(1, 'case'), plural(2, 'case')], ['1 case', '2 cases']);
});

test('a study is named by the last part of its path', () => {
  assert.deepEqual(['/data/colon/', 'C:\\x\\lungs', '/a/list.CSV'].map(nameOf), ['colon', 'lungs', 'list']);
});
