import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { gradient, MAPS, table } from '../../../app/widgets/review/js/colours.js';
import { both, clip, cover, decode, STEPS, sampler, stepOf, threshold } from '../../../app/widgets/review/js/heat.js';
import { lookup, windowOf, windows } from '../../../app/widgets/review/js/image.js';
import { BELOW, cored } from '../../../app/widgets/review/js/shapes.js';
import { measuredAt as at, count, overlap } from '../../../app/widgets/review/js/threshold.js';
import { random } from './browser.js';

/** Headers of a map: X-Map-Shape is `shape`, and so on. @param {Record<string, string>} values */
const headers = (values) => ({
  get: (/** @type {string} */ name) => values[name.replace('X-Map-', '').toLowerCase()] ?? null,
});

test('a map is decoded from 16 bits to its values', () => {
  const raw = Uint16Array.from([0, 65535, 32768, 100, 200, 300]);
  const map = decode(raw.buffer, headers({ shape: '2,3', range: '-1.5,2.5', scale: '0,2', threshold: '1.25' }));
  assert.equal(map.h, 2);
  assert.equal(map.w, 3);
  assert.ok(Math.abs(map.values[0] + 1.5) < 1e-6 && Math.abs(map.values[1] - 2.5) < 1e-6);
  assert.ok(Math.abs(map.values[3] - (-1.5 + (100 / 65535) * 4)) < 1e-6);
  assert.deepEqual(map.scale, { lo: 0, hi: 2, pixel: 1.25 });
  assert.deepEqual([map.core, map.share, map.seen], [1.25, null, null], 'a run without outlines');
});

test('hidden pixels come as one bit per value, after the values', () => {
  const shape = headers({ shape: '3,5', range: '0,1', scale: '0,1' });
  const values = Array.from({ length: 15 }, (_, i) => i);
  const hidden = values.map((i) => Number(i % 4 === 0 || i === 14));
  const bits = [0, 0];
  for (const i of values) bits[i >> 3] |= hidden[i] << (7 - (i & 7));
  const body = new Uint8Array(32);
  body.set(new Uint8Array(Uint16Array.from(values).buffer));
  body.set(bits, 30);
  const map = decode(body.buffer, shape);
  const stored = Array.from(map.values, (v) => Math.round(65535 * v));
  assert.deepEqual(stored, values);
  assert.deepEqual([...(map.hidden?.pixels || [])], hidden);
  assert.equal(decode(body.buffer.slice(0, 30), shape).hidden, null, 'no pixel is hidden');
});

test('a map names its outline thresholds, and the pixels without a comparison', () => {
  const outlined = { threshold: '0.75', core: '1.5', share: '0.45', seen: '01,11' };
  const about = headers({ shape: '2,2', range: '0,1', scale: '0,2', ...outlined });
  const map = decode(new Uint16Array(4).buffer, about);
  assert.deepEqual([map.scale.pixel, map.core, map.share], [0.75, 1.5, 0.45]);
  assert.deepEqual([...(map.seen?.pixels || [])], [0, 1, 1, 1]);
  const roi = { w: 4, h: 2, pixels: Uint8Array.from([1, 1, 1, 0, 1, 1, 1, 0]) };
  assert.deepEqual([...(both(roi, map.seen)?.pixels || [])], [0, 0, 1, 0, 1, 1, 1, 0]);
  assert.equal(both(null, map.seen), map.seen);
  assert.equal(both(roi, null), roi);
});

test('parts that stay below the core level belong neither to the outline nor to its figures', async () => {
  const values = Float32Array.from([2, 1, 0, 1, 1, 1, 0, 1]);
  const field = { w: 4, h: 2, values };
  const cut = cored(field, 0.9, 1.5);
  assert.deepEqual([...cut.values], [2, 1, 0, BELOW, 1, 1, 0, BELOW]);
  assert.equal(cored(field, 1.6, 1.5), field);
  const map = /** @type {any} */ ({ ...field, scale: { lo: 0, hi: 2, pixel: 0.9 }, core: 1.5 });
  const lesion = Uint8Array.from([1, 1, 1, 1, 0, 0, 0, 0]);
  const counts = await count({ map, field }, lesion, field);
  assert.ok(counts);
  assert.deepEqual(counts.own, [2, 2]);
  assert.equal(at(counts, null).dice, 4 / 8);
  assert.equal(at(counts, 0).area, 8);
});

test('between cells the map is linear with half-pixel centres, and constant beyond the outer ones', () => {
  const row = new Float32Array(8);
  sampler({ w: 2, h: 1, values: Float32Array.from([0, 1]) }, 8, 1)(0, row);
  const expected = [0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1];
  expected.forEach((v, x) => assert.ok(Math.abs(row[x] - v) < 1e-6, `${x}: ${row[x]}`));
});

test('what lies outside the region is below every threshold', () => {
  const field = { w: 4, h: 2, values: new Float32Array(8).fill(3) };
  clip(field, { w: 2, h: 1, pixels: Uint8Array.from([1, 0]) });
  assert.deepEqual([...field.values], [3, 3, BELOW, BELOW, 3, 3, BELOW, BELOW]);
});

test('a step of the slider and its value belong together', () => {
  const map = { scale: { lo: -2, hi: 6, pixel: 0 } };
  for (const step of [0, 1, 333, STEPS]) assert.equal(stepOf(map, threshold(map, step)), step);
  assert.equal(stepOf(map, -99), 0);
  assert.equal(stepOf(map, 99), STEPS);
});

test('Dice, IoU and area at every threshold are those of counting pixels one by one', async () => {
  const next = random(2);
  const [w, h] = [20, 14];
  const values = Float32Array.from({ length: w * h }, () => next() * 1.2 - 0.1);
  const map = /** @type {any} */ ({ w, h, values, scale: { lo: 0, hi: 1, pixel: 0.5 }, core: 0.5 });
  const lesion = Uint8Array.from({ length: w * h }, () => (next() > 0.7 ? 1 : 0));
  const roi = { w, h, pixels: Uint8Array.from({ length: w * h }, () => (next() > 0.2 ? 1 : 0)) };
  const field = { w, h, values: values.slice() };
  clip(field, roi);
  const counts = await count({ map, field }, lesion, field);
  assert.ok(counts);
  for (const step of [0, 100, 480, 730, STEPS]) {
    let [area, hit, all] = [0, 0, 0];
    values.forEach((v, i) => {
      all += lesion[i];
      const found = roi.pixels[i] && Math.floor(v * STEPS + 1e-4) >= step;
      if (found) area += 1;
      if (found && lesion[i]) hit += 1;
    });
    const said = at(counts, step);
    assert.equal(said.area, area);
    assert.ok(Math.abs(Number(said.dice) - (2 * hit) / (area + all)) < 1e-12);
    assert.ok(Math.abs(Number(said.iou) - hit / (area + all - hit)) < 1e-12);
  }
  assert.equal(await count({ map, field }, undefined, { w: 2000, h: 2000 }, () => true), null, 'cancelled');
});

test('two masks overlap', () => {
  assert.deepEqual(overlap(Uint8Array.from([1, 1, 0, 0]), Uint8Array.from([0, 1, 1, 0])), { dice: 0.5, iou: 1 / 3 });
  assert.deepEqual(overlap(new Uint8Array(3), new Uint8Array(3)), { dice: 1, iou: 1 });
});

test('colour maps have 256 colours and rise in lightness', () => {
  for (const name of MAPS) {
    const colours = table(name);
    assert.equal(colours.length, 768);
    const light = (/** @type {number} */ i) =>
      0.3 * colours[3 * i] + 0.59 * colours[3 * i + 1] + 0.11 * colours[3 * i + 2];
    for (let i = 16; i < 256; i += 16) assert.ok(light(i) > light(i - 16), `${name} at ${i}`);
  }
  assert.match(gradient('grey'), /^linear-gradient\(to right, #000000, .*#ffffff\)$/);
});

test('window and level: black below, white above, linear between; inverted the other way', () => {
  const lut = lookup({ centre: 100, width: 50 }, 256, false);
  assert.deepEqual([lut[0], lut[75], lut[100], lut[125], lut[255]], [0, 0, 128, 255, 255]);
  const turned = lookup({ centre: 100, width: 50 }, 256, true);
  assert.ok([0, 75, 125, 255].every((v) => turned[v] === 255 - lut[v]));
});

test('a preset in Hounsfield units is found in the stored grey values', () => {
  const soft = windows(true)[0];
  const picture = { full: { centre: 1500, width: 3000 }, top: 3000, offset: -1024, gain: 2 };
  assert.deepEqual(windowOf(soft, picture), { centre: (40 + 1024) / 2, width: 200 });
  const dark = windows(false)[0];
  const plain = windowOf(dark, { full: { centre: 100, width: 200 }, top: 255, offset: 0, gain: 1 });
  assert.deepEqual(plain, { centre: 100 + (0.22 - 0.5) * 200, width: 100 });
});

test('usual values of held-out normals are transparent, and a hot spot is opaque', () => {
  assert.deepEqual([0, 0.2, 0.4].map(cover), [0, 0, 0], 'normal tissue keeps its colour');
  assert.ok(cover(0.5) < 0.4 && cover(0.6) > cover(0.5));
  for (const t of [0.7, 1]) assert.ok(cover(t) > 0.995 && cover(t) < 1.005);
});
