// A heat map: Uint16 values at the detector's own resolution, on one scale for the whole run.
// It spans the whole image; between its cells it is linear (half-pixel centres, as the engine does it).

import { clamp } from '../../../static/format.js';
import { table } from './colours.js';
import { BELOW, unpack } from './shapes.js';

export const GRID = 512; // the long side of the grid on which contours and components are found
const HATCH = [0xc0ffffff, 0xc0000000]; // ABGR: a white line next to a black one, visible on any image
export const STEPS = 1000; // steps of the threshold slider over the run's display scale

/** @typedef {{get: (name: string) => string | null}} Headers */
/** @typedef {{lo: number, hi: number, pixel: number}} Scale the run's display scale and the level of this map's outline */
/** @typedef {{w: number, h: number, pixels: Uint8Array}} Area 1 inside */
/** @typedef {ReturnType<typeof decode>} HeatMap */

/** Parses the comma-separated numbers of a header. @param {Headers} headers @param {string} name */
export const numbers = (headers, name) => (headers.get(name) || '').split(',').map(Number);

/** @param {ArrayBuffer} buffer Uint16 (h, w), then a bit for each value if some are not judged @param {Headers} headers */
export function decode(buffer, headers) {
  const [h, w] = numbers(headers, 'X-Map-Shape');
  const [lo, hi] = numbers(headers, 'X-Map-Range');
  const [dlo, dhi] = numbers(headers, 'X-Map-Scale');
  const pixel = Number(headers.get('X-Map-Threshold') || 'NaN');
  const share = headers.get('X-Map-Share');
  const bits = new Uint8Array(buffer, 2 * h * w);
  const rows = headers.get('X-Map-Seen')?.split(',');
  return {
    h,
    w,
    values: Float32Array.from(new Uint16Array(buffer, 0, h * w), (v) => lo + (v / 65535) * (hi - lo)),
    scale: { lo: dlo, hi: dhi, pixel },
    core: Number(headers.get('X-Map-Core') || pixel), // the value that an outlined part must exceed somewhere
    // How far up to its own maximum the map is outlined; null if one level holds for all images.
    share: share === null ? null : Number(share),
    // Places that normal images show; null for all.
    seen: rows ? { w: rows[0].length, h: rows.length, pixels: Uint8Array.from(rows.join(''), Number) } : null,
    hidden: bits.length ? { w, h, pixels: unpack(bits, h * w) } : null, // areas that are not judged
  };
}

/** Returns fill(y, out): row y of the map at W x H.
 * @param {Pick<HeatMap, 'w' | 'h' | 'values'>} map @param {number} W @param {number} H
 * @returns {(y: number, out: Float32Array) => void} */
export function sampler(map, W, H) {
  const left = new Int32Array(W);
  const right = new Int32Array(W);
  const part = new Float32Array(W);
  for (let x = 0; x < W; x += 1) {
    const at = clamp(((x + 0.5) * map.w) / W - 0.5, 0, map.w - 1);
    left[x] = Math.floor(at);
    right[x] = Math.min(left[x] + 1, map.w - 1);
    part[x] = at - left[x];
  }
  const line = new Float32Array(map.w);
  return (y, out) => {
    const at = clamp(((y + 0.5) * map.h) / H - 0.5, 0, map.h - 1);
    const top = Math.floor(at);
    const below = Math.min(top + 1, map.h - 1);
    const f = at - top;
    for (let i = 0; i < map.w; i += 1) {
      const a = map.values[top * map.w + i];
      line[i] = a + f * (map.values[below * map.w + i] - a);
    }
    for (let x = 0; x < W; x += 1) out[x] = line[left[x]] + part[x] * (line[right[x]] - line[left[x]]);
  };
}

/** Resamples a map to the grid of an image of that size. @param {HeatMap} map @param {number} imageW @param {number} imageH
 * @returns {import('./shapes.js').Field} */
export function grid(map, imageW, imageH) {
  const shrink = Math.min(1, GRID / Math.max(imageW, imageH));
  const w = Math.max(1, Math.round(imageW * shrink));
  const h = Math.max(1, Math.round(imageH * shrink));
  const values = new Float32Array(w * h);
  const row = sampler(map, w, h);
  for (let y = 0; y < h; y += 1) row(y, values.subarray(y * w, (y + 1) * w));
  return { w, h, values };
}

/** Returns the nearest of `of` cells for each of n places along the same side. @param {number} n @param {number} of */
export const nearest = (n, of) => Int32Array.from({ length: n }, (_, i) => Math.floor(((i + 0.5) * of) / n));

/** Resamples an area to w x h, by nearest neighbour. @param {Area} area @param {number} w @param {number} h */
function resampled({ w: aw, h: ah, pixels }, w, h) {
  const [columns, rows] = [nearest(w, aw), nearest(h, ah)];
  const out = new Uint8Array(w * h);
  for (let y = 0, i = 0; y < h; y += 1)
    for (let x = 0; x < w; x += 1, i += 1) out[i] = pixels[rows[y] * aw + columns[x]];
  return out;
}

/** Returns the intersection of two areas; a missing area is the whole image. @param {Area | null | undefined} a @param {Area | null} b */
export function both(a, b) {
  if (!a || !b) return a || b;
  return { w: a.w, h: a.h, pixels: resampled(b, a.w, a.h).map((v, i) => v & a.pixels[i]) };
}

/** Sets values outside the area below every threshold. @param {import('./shapes.js').Field} field @param {Area} roi */
export function clip({ w, h, values }, roi) {
  resampled(roi, w, h).forEach((inside, i) => {
    if (!inside) values[i] = BELOW;
  });
}

/** Makes an image of w x h pixels. @param {number} w @param {number} h @param {(i: number) => number} ink ABGR of pixel i */
export function inked(w, h, ink) {
  const image = new ImageData(w, h);
  const words = new Uint32Array(image.data.buffer);
  for (let i = 0; i < words.length; i += 1) words[i] = ink(i);
  return image;
}

/** As `inked`, on a canvas. @param {number} w @param {number} h @param {(i: number) => number} ink */
export function canvasOf(w, h, ink) {
  const canvas = Object.assign(document.createElement('canvas'), { width: w, height: h });
  canvas.getContext('2d')?.putImageData(inked(w, h, ink), 0, 0);
  return canvas;
}

/** Draws hatching over an area, on a canvas of w x h. @param {Area} area @param {number} w @param {number} h */
export function hatched(area, w, h) {
  const inside = resampled(area, w, h);
  return canvasOf(w, h, (i) => (inside[i] && HATCH[((i % w) + Math.floor(i / w)) % 10]) || 0);
}

/** Returns the value at a step of the slider. @param {{scale: Scale}} map @param {number} step */
export function threshold(map, step) {
  return map.scale.lo + (step / STEPS) * (map.scale.hi - map.scale.lo);
}

/** Returns the step of the slider at a value. @param {{scale: Scale}} map @param {number} value */
export function stepOf(map, value) {
  const t = (value - map.scale.lo) / (map.scale.hi - map.scale.lo);
  return Math.round(clamp(t, 0, 1) * STEPS);
}

/** Returns the opacity of the colour, at 0 to 1 of the scale: held-out normals stay below 0.5, so that normal
 * tissue keeps its own colour. The grid's pictures (app/routes/gallery.py) use the same ramp. @param {number} t */
export const cover = (t) => clamp((t - 0.4) / 0.3, 0, 1);

/** Colours a map; values that held-out normals reach too stay transparent, so that a normal image never turns red.
 * @param {import('./shapes.js').Field} field @param {Scale} scale @param {string} name of the colour map */
export function coloured({ w, h, values }, { lo, hi }, name) {
  const lut = table(name);
  const gain = 1 / (hi - lo || 1);
  return canvasOf(w, h, (i) => {
    const t = clamp((values[i] - lo) * gain, 0, 1);
    const c = 3 * Math.round(255 * t);
    return (Math.round(255 * cover(t)) << 24) | (lut[c + 2] << 16) | (lut[c + 1] << 8) | lut[c];
  });
}
