// A component of the heat map as part of a lesion mask, at the image's own pixels.
import { sampler } from './heat.js';

/**
 * Sets the pixels at or above `level` that lie on, or one cell beside, a component found on the grid. Returns the box
 * that was touched.
 * @param {Uint8Array} mask changed
 * @param {number} w
 * @param {number} h
 * @param {{map: import('./heat.js').HeatMap, field: import('./contour.js').Field, level: number, inside: Uint8Array,
 *   box: import('./shapes.js').Box}} component `inside`: its cells on the grid of `field`
 */
export function fillComponent(mask, w, h, { map, field, level, inside, box }) {
  const sx = field.w / w;
  const sy = field.h / h;
  const near = (/** @type {number} */ gx, /** @type {number} */ gy) => {
    for (let y = Math.max(gy - 1, 0); y <= Math.min(gy + 1, field.h - 1); y += 1)
      for (let x = Math.max(gx - 1, 0); x <= Math.min(gx + 1, field.w - 1); x += 1)
        if (inside[y * field.w + x]) return true;
    return false;
  };
  const touched = {
    x0: Math.max(Math.floor((box.x0 - 1) / sx), 0),
    x1: Math.min(Math.ceil((box.x1 + 2) / sx), w - 1),
    y0: Math.max(Math.floor((box.y0 - 1) / sy), 0),
    y1: Math.min(Math.ceil((box.y1 + 2) / sy), h - 1),
  };
  const row = new Float32Array(w);
  const fillRow = sampler(map, w, h);
  for (let y = touched.y0; y <= touched.y1; y += 1) {
    fillRow(y, row);
    const gy = Math.floor((y + 0.5) * sy);
    for (let x = touched.x0; x <= touched.x1; x += 1)
      if (row[x] >= level && near(Math.floor((x + 0.5) * sx), gy)) mask[y * w + x] = 1;
  }
  return touched;
}
