// The image itself: eight bits decoded from PNG by the browser, more bits as raw Uint16; window and level on visible pixels.

import { bytes, fetched } from '../../../static/api.js';
import { numbers } from './heat.js';
import { matrix, seenSize, UPRIGHT } from './view.js';

/** @typedef {{buffer: ArrayBuffer, headers: import('./heat.js').Headers}} Stored bytes and what describes them */
/** @typedef {{centre: number, width: number, name?: string}} Window a window of grey values: its level and its width;
 *   name: of its preset, or own */
/** @typedef {{scale: number, dx: number, dy: number, turn?: import('./view.js').Turn}} Lie position of the image
 *   on the canvas, like a View */

/** @param {{id: number, v: string, bits: number | null}} detail */
export async function load(detail) {
  if (detail.bits !== null && detail.bits > 8) {
    const raw = await bytes(`/api/case/${detail.id}/raw?v=${detail.v}`);
    if (raw) return opened({ raw });
  }
  const response = await fetched(`/api/case/${detail.id}/image.png?v=${detail.v}`);
  return opened({ image: { buffer: await response.arrayBuffer(), headers: response.headers } });
}

/** Makes a picture of `raw` (Uint16) or, without it, of `image` (PNG). @param {{raw?: Stored, image?: Stored}} parts */
export async function opened({ raw, image }) {
  if (raw) {
    const [h, w] = numbers(raw.headers, 'X-Image-Shape');
    const picture = new Picture(w, h, null, new Uint16Array(raw.buffer));
    picture.offset = Number(raw.headers.get('X-Image-Offset') || 0);
    picture.gain = Number(raw.headers.get('X-Image-Gain') || 1);
    return picture;
  }
  // The stored pixels: no colour profile may change them.
  const png = new Blob([image?.buffer || new ArrayBuffer(0)], { type: 'image/png' });
  const bitmap = await createImageBitmap(png, { colorSpaceConversion: 'none', premultiplyAlpha: 'none' });
  return new Picture(bitmap.width, bitmap.height, bitmap, null);
}

export class Picture {
  top = 255; // largest grey value
  offset = 0; // grey values are (value - offset) / gain
  gain = 1;
  full = { centre: 127.5, width: 255 };

  /** @param {number} w @param {number} h @param {ImageBitmap | null} bitmap @param {Uint16Array | null} raw */
  constructor(w, h, bitmap, raw) {
    this.w = w;
    this.h = h;
    this.bitmap = bitmap;
    this.raw = raw;
    if (!raw) return;
    let lo = 65535;
    let hi = 0;
    for (const v of raw) {
      if (v < lo) lo = v;
      if (v > hi) hi = v;
    }
    this.top = Math.max(hi, 1);
    this.full = { centre: (lo + hi) / 2, width: Math.max(hi - lo, 1) };
  }

  /** Draws through the view's transform. @param {CanvasRenderingContext2D} context
   * @param {Lie} view @param {Window | null} window null: the image's full range
   * @param {boolean} invert */
  draw(context, view, window, invert) {
    const ratio = devicePixelRatio || 1;
    const lie = { ...view, scale: view.scale * ratio, dx: view.dx * ratio, dy: view.dy * ratio };
    if (this.raw) return this.sample(context, this.raw, lie, window || this.full, invert);
    context.save();
    context.imageSmoothingEnabled = lie.scale < 3;
    context.imageSmoothingQuality = 'high';
    context.setTransform(...matrix(lie, this, 1));
    if (this.bitmap) context.drawImage(this.bitmap, 0, 0);
    context.restore();
    if (window || invert) this.remap(context, lie, lookup(window || this.full, 256, invert));
  }

  /** Maps the visible grey values through a table. @param {CanvasRenderingContext2D} context
   * @param {Lie} lie in pixels of the canvas @param {ArrayLike<number>} lut of 256 */
  remap(context, { scale, dx, dy, turn = UPRIGHT }, lut) {
    const seen = seenSize(turn, this);
    const x0 = Math.max(Math.floor(dx), 0);
    const y0 = Math.max(Math.floor(dy), 0);
    const x1 = Math.min(Math.ceil(dx + seen.w * scale), context.canvas.width);
    const y1 = Math.min(Math.ceil(dy + seen.h * scale), context.canvas.height);
    if (x1 <= x0 || y1 <= y0) return;
    const part = context.getImageData(x0, y0, x1 - x0, y1 - y0);
    const d = part.data;
    for (let i = 0; i < d.length; i += 4) {
      d[i] = lut[d[i]];
      d[i + 1] = lut[d[i + 1]];
      d[i + 2] = lut[d[i + 2]];
    }
    context.putImageData(part, x0, y0);
  }

  /** Draws grey values of more than eight bits, by nearest neighbour. @param {CanvasRenderingContext2D} context
   * @param {Uint16Array} raw @param {Lie} lie in pixels of the canvas
   * @param {Window} window @param {boolean} invert */
  sample(context, raw, lie, window, invert) {
    const { width: w, height: h } = context.canvas;
    const lut = lookup(window, 65536, invert);
    const part = context.createImageData(w, h);
    const words = new Uint32Array(part.data.buffer);
    const { columns, rows } = steps(lie, this, w, h);
    for (let y = 0; y < h; y += 1) {
      if (rows[y] < 0) continue;
      for (let x = 0; x < w; x += 1) {
        if (columns[x] < 0) continue;
        const v = lut[raw[columns[x] + rows[y]]];
        words[y * w + x] = 0xff000000 | (v << 16) | (v << 8) | v;
      }
    }
    context.putImageData(part, 0, 0);
  }
}

/** Returns, for each column and row of the canvas, its part of the nearest pixel's index; -1 outside the image.
 * @param {Lie} lie in pixels of the canvas @param {{w: number, h: number}} image @param {number} w @param {number} h */
export function steps({ scale, dx, dy, turn = UPRIGHT }, image, w, h) {
  const seen = seenSize(turn, image);
  /** @param {number} n @param {number} d @param {number} size @param {boolean} back @param {number} by */
  const along = (n, d, size, back, by) =>
    Int32Array.from({ length: n }, (_, i) => {
      const at = Math.floor((i + 0.5 - d) / scale);
      if (at < 0 || at >= size) return -1;
      return by * (back ? size - 1 - at : at);
    });
  // The canvas's x is the image's x, or its y after a quarter turn.
  const columns = along(w, dx, seen.w, turn.a + turn.c < 0, turn.a ? 1 : image.w);
  const rows = along(h, dy, seen.h, turn.b + turn.d < 0, turn.a ? image.w : 1);
  return { columns, rows };
}

// Window and level: the named windows, and the table that converts grey values for display.
/** @typedef {Required<Window> & {unit: 'HU' | 'range'}} Preset in Hounsfield units, or fractions of the range */

/** @type {Preset[]} */
const PRESETS = [
  { name: 'Soft tissue', centre: 40, width: 400, unit: 'HU' },
  { name: 'Lung', centre: -600, width: 1500, unit: 'HU' },
  { name: 'Bone', centre: 400, width: 1800, unit: 'HU' },
  { name: 'Brain', centre: 40, width: 80, unit: 'HU' },
  { name: 'Liver', centre: 60, width: 160, unit: 'HU' },
  { name: 'Dark parts', centre: 0.22, width: 0.5, unit: 'range' },
  { name: 'Bright parts', centre: 0.75, width: 0.5, unit: 'range' },
  { name: 'High contrast', centre: 0.5, width: 0.45, unit: 'range' },
];

/** @param {boolean} ct whether the grey values are Hounsfield units */
export const windows = (ct) => PRESETS.filter(({ unit }) => (unit === 'HU') === ct);

/** Converts a preset to the grey values of an image, which are stored as (value - offset) / gain.
 * @param {Preset} chosen @param {{full: Window, top: number, offset: number, gain: number}} picture @returns {Window} */
export function windowOf({ centre, width, unit }, { full, top, offset, gain }) {
  const ct = unit === 'HU';
  const level = ct ? (centre - offset) / gain : full.centre + (centre - 0.5) * full.width;
  return { centre: Math.min(level, top), width: ct ? width / gain : width * full.width };
}

/** Returns the displayed value of each stored grey value: 0 below the window, 255 above it, linear between.
 * @param {Window} window @param {number} size how many grey values there are @param {boolean} invert */
export function lookup(window, size, invert) {
  const lut = new Uint8ClampedArray(size);
  const lo = window.centre - window.width / 2;
  for (let i = 0; i < size; i += 1) {
    const v = (255 * (i - lo)) / window.width;
    lut[i] = invert ? 255 - v : v;
  }
  return lut;
}
