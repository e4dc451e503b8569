// What lies over the image: heat maps and masks, fetched once and kept for the next cases.

import { bytes } from './api.js'
import { contour, outline } from './contour.js'
import { components } from './regions.js'
import { colourise, decode, grid, threshold } from './heat.js'
import { unpack } from './shapes.js'
import { load } from './image.js'

const KEEP = 8
const KEEP_PIXELS = 24_000_000

class Shelf {
  constructor(make, size = () => 1, most = KEEP) {
    Object.assign(this, { make, size, most, held: new Map() })
  }

  get(key, ...args) {
    if (!this.held.has(key)) {
      const promise = this.make(...args)
      this.held.set(key, promise)
      promise.then((made) => made || this.held.delete(key), () => this.held.delete(key))
      this.trim()
    } else {
      const promise = this.held.get(key)
      this.held.delete(key)
      this.held.set(key, promise)
    }
    return this.held.get(key)
  }

  async trim() {
    while (this.held.size > this.most) this.held.delete(this.held.keys().next().value)
    let total = 0
    for (const [key, promise] of [...this.held].reverse()) {
      const made = await promise.catch(() => null)
      total += made ? this.size(made) : 0
      if (total > KEEP_PIXELS && this.held.size > 2) this.held.delete(key)
    }
  }
}

export const pictures = new Shelf(load, (p) => p.w * p.h)

export const heats = new Shelf(async (id, run) => {
  const got = await bytes(`/api/case/${id}/heat?run=${encodeURIComponent(run)}`)
  return got && { id, run, map: decode(got.buffer, got.headers) }
})

// A heat map made ready for an image of that size: its grid and its colours.
export function layer(heat, picture, colours) {
  const field = grid(heat.map, picture.w, picture.h)
  const made = { ...heat, field, canvas: document.createElement('canvas'), colours }
  colourise(field, heat.map.scale, colours, made.canvas)
  return made
}

export function recolour(made, colours) {
  if (made) colourise(made.field, made.map.scale, colours, made.canvas)
}

// The contour and the number of components at a step of the slider.
export function cutAt(made, step) {
  const level = threshold(made.map, step)
  made.contour = contour(made.field, level)
  made.components = components(made.field, level)
  made.level = level
}

export const masks = new Shelf(async (caseId, id) => {
  const got = await bytes(`/api/case/${caseId}/mask.bits?id=${id}&v=1`)
  return got && dressed(got, 0x73e9b456)
})

export const rois = new Shelf(async (caseId, v) => {
  const got = await bytes(`/api/case/${caseId}/roi.bits?v=${v}`)
  return got && dressed(got, 0)
})

function dressed({ buffer, headers }, tint) {
  const [h, w] = headers.get('X-Image-Shape').split(',').map(Number)
  const pixels = unpack(new Uint8Array(buffer), w * h)
  const canvas = document.createElement('canvas')
  if (tint) {
    canvas.width = w
    canvas.height = h
    const image = new ImageData(w, h)
    const words = new Uint32Array(image.data.buffer)
    for (let i = 0; i < pixels.length; i += 1) if (pixels[i]) words[i] = (tint | 0xff000000) >>> 0
    canvas.getContext('2d').putImageData(image, 0, 0)
  }
  return { w, h, pixels, canvas, outline: outline(pixels, w, h) }
}
