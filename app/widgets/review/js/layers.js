// The layers over the image: heat maps and masks, fetched once and cached.
import { bytes, headed } from '../../../static/api.js';
import { both, canvasOf, clip, coloured, decode, GRID, grid, hatched, numbers, threshold } from './heat.js';
import { load, opened } from './image.js';
import { components, contour, cored, outline, unpack } from './shapes.js';

/** @typedef {import('./image.js').Picture} Picture */
/** @typedef {import('./image.js').Stored} Stored */
/** @typedef {{id: number, run: string, map: import('./heat.js').HeatMap, made?: Layer}} Heat a heat map as fetched */
/** @typedef {ReturnType<typeof region>} Region */
/** @typedef {ReturnType<typeof tinted>} MaskLayer */
/** @typedef {ReturnType<typeof prepared>} Layer */

// A cache of fetched objects for the next cases, limited in number and pixels.
const KEEP = 8;
const KEEP_PIXELS = 24_000_000;

/** @template {any[]} A @template M */
export class Shelf {
  /** @param {(...args: A) => Promise<M>} make fetches what is not cached yet; null and failures are not cached @param
   * {(made: NonNullable<M>) => number} [size] in pixels @param {number} [most] */
  constructor(make, size = () => 1, most = KEEP) {
    this.make = make;
    this.size = size;
    this.most = most;
    /** @type {Map<string, Promise<M>>} the latest request is at the end */
    this.held = new Map();
  }

  /** @param {string} key @param {Promise<M>} promise */
  put(key, promise) {
    this.held.delete(key);
    this.held.set(key, promise);
    const drop = () => this.held.get(key) === promise && this.held.delete(key);
    promise.then((made) => made || drop(), drop);
    this.trim();
  }

  /** @param {string} key @param {A} args for `make` */
  get(key, ...args) {
    const promise = this.held.get(key) ?? this.make(...args);
    this.put(key, promise);
    return promise;
  }

  async trim() {
    for (const key of [...this.held.keys()].slice(0, -this.most)) this.held.delete(key);
    let total = 0;
    for (const [key, promise] of [...this.held].reverse()) {
      const made = await promise.catch(() => null);
      total += made ? this.size(made) : 0;
      if (total > KEEP_PIXELS && this.held.size > 2) this.held.delete(key);
    }
  }
}

const LESION = 0xffe9b456; // ABGR of LINES.lesion

export const pictures = new Shelf(load, (/** @type {Picture} */ p) => p.w * p.h);

export const heats = new Shelf(async (/** @type {number} */ id, /** @type {string} */ run) => {
  const got = await bytes(`/api/case/${id}/heat?run=${encodeURIComponent(run)}`);
  return got && heatOf(id, run, got);
});

export const masks = new Shelf(async (/** @type {number} */ caseId, /** @type {number} */ id) => {
  const got = await bytes(`/api/case/${caseId}/mask.bits?id=${id}&v=1`);
  return got && tinted(got);
});

export const rois = new Shelf(async (/** @type {number} */ caseId, /** @type {string} */ v) => {
  const got = await bytes(`/api/case/${caseId}/roi.bits?side=${GRID}&v=${v}`);
  return got && region(got);
});

/** @param {number} id @param {string} run @param {Stored} stored @returns {Heat} */
const heatOf = (id, run, { buffer, headers }) => ({ id, run, map: decode(buffer, headers) });

/** Prepares a heat map for an image: its grid, its colours, and its contour at a threshold.
 * @param {string} key @param {Heat} heat @param {Picture} picture @param {Region | null | undefined} roi */
function prepared(key, { run, map }, { w, h }, roi) {
  const field = grid(map, w, h);
  const inside = both(roi, map.seen);
  if (inside) clip(field, inside);
  return {
    key,
    run,
    map,
    field,
    cut: field, // of the contour
    hatch: map.hidden && hatched(map.hidden, field.w, field.h), // lines over areas that are not judged
    canvas: document.createElement('canvas'),
    colours: '',
    level: Number.NaN,
    step: /** @type {number | null | undefined} */ (undefined), // of the slider, null for the map's own outline
    contour: /** @type {Path2D | null} */ (null),
    components: 0,
    counted: /** @type {{mask: number | null, counts: import('./threshold.js').PixelCounts} | null} */ (null),
  };
}

/** Returns a heat map prepared for an image of that size, only inside `roi` if given. Cached with the map: the next
 * case's layer is ready before it is needed.
 * @param {Heat} heat @param {Picture} picture @param {string} colours @param {Region | null | undefined} roi @returns
 * {Layer} */
export function layer(heat, picture, colours, roi) {
  const key = `${picture.w}/${picture.h}/${roi ? 'inside' : 'all'}`;
  if (heat.made?.key !== key) heat.made = prepared(key, heat, picture, roi);
  recolour(heat.made, colours);
  return heat.made;
}

/** @param {Layer} made @param {string} colours */
export function recolour(made, colours) {
  if (made.colours === colours) return;
  made.canvas = coloured(made.field, made.map.scale, colours);
  made.colours = colours;
}

/** Returns the field of the map's own outline: without parts that never exceed normal values. @param {Pick<Layer, 'field' | 'map'>} made */
export const ownCut = ({ field, map }) => cored(field, map.scale.pixel, map.core);

/** Sets the contour and the number of components at a step of the slider; null: the map's own outline.
 * @param {Layer} made @param {number | null} step */
export function cutAt(made, step) {
  if (made.step === step) return;
  made.step = step;
  made.level = step === null ? made.map.scale.pixel : threshold(made.map, step);
  made.cut = step === null ? ownCut(made) : made.field;
  made.contour = contour(made.cut, made.level);
  made.components = components(made.cut, made.level);
}

/** Fetches all layers of a case in one request and puts them on their shelves. Null if the case is already
 * loaded.
 * @param {number} id @param {string} v @param {string | null} run */
export function ahead(id, v, run) {
  if (pictures.held.has(`${id}/${v}`)) return null;
  const coming = unpacked(id, v, run || '');
  const picture = coming.then((p) => p.picture);
  pictures.put(`${id}/${v}`, picture);
  return coming;
}

/** @param {number} id @param {string} v @param {string} run */
async function unpacked(id, v, run) {
  const got = await bytes(`/api/case/${id}/pack?run=${encodeURIComponent(run)}`);
  if (!got) throw new Error('The image cannot be read.');
  const parts = partsOf(got.buffer);
  const picture = await opened(parts);
  const heat = parts.heat ? heatOf(id, run, parts.heat) : null;
  const roi = parts.roi ? region(parts.roi) : null;
  const lesion = parts.mask ? tinted(parts.mask) : null;
  const mask = parts.mask ? Number(parts.mask.headers.get('id')) : null;
  if (heat) heats.put(`${id}/${run}`, Promise.resolve(heat));
  if (roi) rois.put(`${id}/${v}`, Promise.resolve(roi));
  if (lesion) masks.put(`${id}/${mask}`, Promise.resolve(lesion));
  return { picture, heat, roi, lesion, mask };
}

/** Splits the answer of /pack: the length of the head, the head (JSON), the parts. @param {ArrayBuffer} buffer */
export function partsOf(buffer) {
  let { head, at } = headed(buffer);
  /** @type {Partial<Record<'image' | 'raw' | 'heat' | 'mask' | 'roi', Stored>>} */
  const parts = {};
  for (const { name, bytes: size, headers } of head) {
    const get = (/** @type {string} */ header) => headers[header];
    Object.assign(parts, { [name]: { buffer: buffer.slice(at, at + size), headers: { get } } });
    at += size;
  }
  return parts;
}

/** A region of interest, or a mask. @param {Stored} stored */
function region({ buffer, headers }) {
  const [h, w] = numbers(headers, 'X-Image-Shape');
  const pixels = unpack(new Uint8Array(buffer), w * h);
  return { w, h, pixels, outline: outline(pixels, w, h) };
}

/** A lesion mask and its picture in one colour. @param {Stored} stored */
function tinted(stored) {
  const mask = region(stored);
  return { ...mask, canvas: canvasOf(mask.w, mask.h, (i) => (mask.pixels[i] ? LESION : 0)) };
}
