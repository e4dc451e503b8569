// A heat map: Uint16 values at the detector's own resolution, on one scale for the whole run.
// It spans the whole image; between its cells it is linear (half-pixel centres, as the engine does it).

import { table } from './colours.js'
import { BELOW } from './contour.js'

export const GRID = 512 // the long side of the grid on which contours and components are found
export const STEPS = 1000 // steps of the threshold slider over the run's display scale

export function decode(buffer, headers) {
  const [h, w] = headers.get('X-Map-Shape').split(',').map(Number)
  const [lo, hi] = headers.get('X-Map-Range').split(',').map(Number)
  const [dlo, dhi] = headers.get('X-Map-Scale').split(',').map(Number)
  const pixel = Number(headers.get('X-Map-Threshold') || 'NaN')
  const raw = new Uint16Array(buffer)
  const values = new Float32Array(raw.length)
  for (let i = 0; i < raw.length; i += 1) values[i] = lo + (raw[i] / 65535) * (hi - lo)
  return { h, w, values, raw, lo, hi, scale: { lo: dlo, hi: dhi, pixel } }
}

// Returns fill(y, out): row y of the map at W x H.
export function sampler(map, W, H) {
  const left = new Int32Array(W)
  const right = new Int32Array(W)
  const part = new Float32Array(W)
  for (let x = 0; x < W; x += 1) {
    const at = Math.min(Math.max(((x + 0.5) * map.w) / W - 0.5, 0), map.w - 1)
    left[x] = Math.floor(at)
    right[x] = Math.min(left[x] + 1, map.w - 1)
    part[x] = at - left[x]
  }
  const line = new Float32Array(map.w)
  return (y, out) => {
    const at = Math.min(Math.max(((y + 0.5) * map.h) / H - 0.5, 0), map.h - 1)
    const top = Math.floor(at)
    const below = Math.min(top + 1, map.h - 1)
    const f = at - top
    for (let i = 0; i < map.w; i += 1) {
      const a = map.values[top * map.w + i]
      line[i] = a + f * (map.values[below * map.w + i] - a)
    }
    for (let x = 0; x < W; x += 1) out[x] = line[left[x]] + part[x] * (line[right[x]] - line[left[x]])
  }
}

export function grid(map, imageW, imageH) {
  const shrink = Math.min(1, GRID / Math.max(imageW, imageH))
  const w = Math.max(1, Math.round(imageW * shrink))
  const h = Math.max(1, Math.round(imageH * shrink))
  const values = new Float32Array(w * h)
  const row = sampler(map, w, h)
  for (let y = 0; y < h; y += 1) row(y, values.subarray(y * w, (y + 1) * w))
  return { w, h, values }
}

// What lies outside the region of interest is below every threshold.
export function clip(field, roi) {
  const { w, h, values } = field
  for (let y = 0; y < h; y += 1) {
    const row = Math.floor(((y + 0.5) * roi.h) / h) * roi.w
    for (let x = 0; x < w; x += 1) if (!roi.pixels[row + Math.floor(((x + 0.5) * roi.w) / w)]) values[y * w + x] = BELOW
  }
}

export function threshold(map, step) {
  return map.scale.lo + (step / STEPS) * (map.scale.hi - map.scale.lo)
}

export function stepOf(map, value) {
  const t = (value - map.scale.lo) / (map.scale.hi - map.scale.lo)
  return Math.round(Math.min(Math.max(t, 0), 1) * STEPS)
}

// Colours grow out of nothing: what held-out normals show too stays clear, so that a normal image never turns red.
export function colourise(field, scale, name, canvas) {
  canvas.width = field.w
  canvas.height = field.h
  const context = canvas.getContext('2d')
  const image = context.createImageData(field.w, field.h)
  const lut = table(name)
  const gain = 1 / (scale.hi - scale.lo || 1)
  for (let i = 0, j = 0; i < field.values.length; i += 1, j += 4) {
    const t = Math.min(Math.max((field.values[i] - scale.lo) * gain, 0), 1)
    const c = 3 * Math.round(255 * t)
    image.data[j] = lut[c]
    image.data[j + 1] = lut[c + 1]
    image.data[j + 2] = lut[c + 2]
    image.data[j + 3] = 255 * Math.min(1, t * 2.5)
  }
  context.putImageData(image, 0, 0)
  return canvas
}
