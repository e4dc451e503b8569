// What lies over the image: heat maps and masks, fetched once and kept for the next cases.

import { bytes } from './api.js'
import { contour, outline } from './contour.js'
import { components } from './regions.js'
import { GRID, clip, colourise, decode, grid, stepOf, threshold } from './heat.js'
import { unpack } from './shapes.js'
import { load, opened } from './image.js'

const KEEP = 8
const LESION = 0x73e9b456
const KEEP_PIXELS = 24_000_000

class Shelf {
  constructor(make, size = () => 1, most = KEEP) {
    Object.assign(this, { make, size, most, held: new Map() })
  }

  has(key) {
    return this.held.has(key)
  }

  put(key, promise) {
    this.held.set(key, promise)
    const drop = () => this.held.get(key) === promise && this.held.delete(key)
    promise.then((made) => made || drop(), drop)
    this.trim()
  }

  get(key, ...args) {
    if (!this.held.has(key)) this.put(key, this.make(...args))
    else {
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

// A heat map made ready for an image of that size: its grid and its colours, inside `roi` alone where one is given.
// Kept with the map: the next case's layer is ready before it is asked for.
export function layer(heat, picture, colours, roi) {
  const key = `${picture.w}/${picture.h}/${roi ? 'inside' : 'all'}`
  if (heat.made?.key !== key) {
    const field = grid(heat.map, picture.w, picture.h)
    if (roi) clip(field, roi)
    heat.made = { ...heat, key, field, roi, canvas: document.createElement('canvas') }
  }
  recolour(heat.made, colours)
  return heat.made
}

export function recolour(made, colours) {
  if (!made || made.colours === colours) return
  colourise(made.field, made.map.scale, colours, made.canvas)
  made.colours = colours
}

// One request for all that is seen of a case; its parts go on the shelves that they are asked for from.
// Null if the case is here already.
export function ahead(id, v, run) {
  if (pictures.has(`${id}/${v}`)) return null
  const coming = unpacked(id, v, run)
  pictures.put(`${id}/${v}`, coming.then((p) => p.picture))
  return coming
}

async function unpacked(id, v, run) {
  const got = await bytes(`/api/case/${id}/pack?run=${encodeURIComponent(run || '')}`)
  if (!got) throw new Error('The image cannot be read.')
  const { buffer } = got
  const length = new DataView(buffer).getUint32(0, true)
  const parts = {}
  let at = 4 + length
  for (const part of JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))) {
    parts[part.name] = { buffer: buffer.slice(at, at + part.bytes), headers: { get: (name) => part.headers[name] } }
    at += part.bytes
  }
  const { heat, mask, roi } = parts
  const out = { picture: await opened(parts), mask: mask?.headers.get('id') || null }
  if (heat) heats.put(`${id}/${run}`, Promise.resolve((out.heat = { id, run, map: decode(heat.buffer, heat.headers) })))
  if (roi) rois.put(`${id}/${v}`, Promise.resolve((out.roi = region(roi))))
  if (mask) masks.put(`${id}/${out.mask}`, Promise.resolve((out.lesion = dressed(mask, LESION))))
  return out
}

// The contour and the number of components at a step of the slider; null: the run's own threshold.
export function cutAt(made, step) {
  const level = threshold(made.map, step ?? stepOf(made.map, made.map.scale.pixel))
  if (made.level === level) return
  made.contour = contour(made.field, level)
  made.components = components(made.field, level)
  made.level = level
}

export const masks = new Shelf(async (caseId, id) => {
  const got = await bytes(`/api/case/${caseId}/mask.bits?id=${id}&v=1`)
  return got && dressed(got, LESION)
})

export const rois = new Shelf(async (caseId, v) => {
  const got = await bytes(`/api/case/${caseId}/roi.bits?side=${GRID}&v=${v}`)
  return got && region(got)
})

// The region of interest on the grid of the heat maps; its line is found when it is first drawn.
function region({ buffer, headers }) {
  const [h, w] = headers.get('X-Image-Shape').split(',').map(Number)
  const pixels = unpack(new Uint8Array(buffer), w * h)
  let line = null
  return { w, h, pixels, get outline() { return (line ??= outline(pixels, w, h)) } }
}

function dressed({ buffer, headers }, tint) {
  const [h, w] = headers.get('X-Image-Shape').split(',').map(Number)
  const pixels = unpack(new Uint8Array(buffer), w * h)
  const canvas = document.createElement('canvas')
  canvas.width = w
  canvas.height = h
  const image = new ImageData(w, h)
  const words = new Uint32Array(image.data.buffer)
  for (let i = 0; i < pixels.length; i += 1) if (pixels[i]) words[i] = (tint | 0xff000000) >>> 0
  canvas.getContext('2d').putImageData(image, 0, 0)
  return { w, h, pixels, canvas, outline: outline(pixels, w, h) }
}
