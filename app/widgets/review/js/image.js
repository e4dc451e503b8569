// The image itself: eight bits as the browser decodes the PNG, more bits as raw Uint16; window and level on the pixels in sight.

import { bytes } from './api.js'

export async function load(detail) {
  if (detail.bits > 8) {
    const raw = await bytes(`/api/case/${detail.id}/raw?v=${detail.v}`)
    if (raw) return opened({ raw })
  }
  const response = await fetch(`/api/case/${detail.id}/image.png?v=${detail.v}`, { credentials: 'same-origin' })
  if (!response.ok) {
    const said = await response.json().catch(() => ({}))
    throw new Error(said.error || `The image cannot be read (${response.status}).`)
  }
  return opened({ image: { buffer: await response.arrayBuffer() } })
}

// A picture of raw: {buffer, headers} or, without it, of image: {buffer} as PNG.
export async function opened({ raw, image }) {
  if (raw) {
    const [h, w] = raw.headers.get('X-Image-Shape').split(',').map(Number)
    return new Picture(w, h, null, new Uint16Array(raw.buffer))
  }
  // The pixels as they are stored: no colour profile may change them on the way.
  const png = new Blob([image.buffer], { type: 'image/png' })
  const bitmap = await createImageBitmap(png, { colorSpaceConversion: 'none', premultiplyAlpha: 'none' })
  return new Picture(bitmap.width, bitmap.height, bitmap, null)
}

class Picture {
  constructor(w, h, bitmap, raw) {
    this.w = w
    this.h = h
    this.bitmap = bitmap
    this.raw = raw
    this.top = 255
    this.full = { centre: 127.5, width: 255 }
    if (raw) {
      let lo = 65535
      let hi = 0
      for (const v of raw) {
        if (v < lo) lo = v
        if (v > hi) hi = v
      }
      this.top = Math.max(hi, 1)
      this.full = { centre: (lo + hi) / 2, width: Math.max(hi - lo, 1) }
    }
  }

  // Draw through the view's transform; `window` {centre, width} or null for the image's full range.
  draw(context, view, window, invert) {
    const ratio = devicePixelRatio || 1
    const w = context.canvas.width
    const h = context.canvas.height
    const scale = view.scale * ratio
    const dx = view.dx * ratio
    const dy = view.dy * ratio
    if (this.raw) {
      this.sample(context, w, h, scale, dx, dy, window || this.full, invert)
      return
    }
    context.imageSmoothingEnabled = scale < 3
    context.imageSmoothingQuality = 'high'
    context.drawImage(this.bitmap, dx, dy, this.w * scale, this.h * scale)
    if (!window && !invert) return
    const x0 = Math.max(Math.floor(dx), 0)
    const y0 = Math.max(Math.floor(dy), 0)
    const x1 = Math.min(Math.ceil(dx + this.w * scale), w)
    const y1 = Math.min(Math.ceil(dy + this.h * scale), h)
    if (x1 <= x0 || y1 <= y0) return
    const lut = table(window || this.full, 256, invert)
    const part = context.getImageData(x0, y0, x1 - x0, y1 - y0)
    const d = part.data
    for (let i = 0; i < d.length; i += 4) {
      d[i] = lut[d[i]]
      d[i + 1] = lut[d[i + 1]]
      d[i + 2] = lut[d[i + 2]]
    }
    context.putImageData(part, x0, y0)
  }

  sample(context, w, h, scale, dx, dy, window, invert) {
    const lut = table(window, 65536, invert)
    const part = context.createImageData(w, h)
    const words = new Uint32Array(part.data.buffer)
    const xs = new Int32Array(w)
    for (let x = 0; x < w; x += 1) xs[x] = Math.floor((x + 0.5 - dx) / scale)
    for (let y = 0; y < h; y += 1) {
      const sy = Math.floor((y + 0.5 - dy) / scale)
      if (sy < 0 || sy >= this.h) continue
      for (let x = 0; x < w; x += 1) {
        const sx = xs[x]
        if (sx < 0 || sx >= this.w) continue
        const v = lut[this.raw[sy * this.w + sx]]
        words[y * w + x] = 0xff000000 | (v << 16) | (v << 8) | v
      }
    }
    context.putImageData(part, 0, 0)
  }
}

const made = { key: '', lut: null }

function table(window, size, invert) {
  const key = `${window.centre}/${window.width}/${size}/${invert}`
  if (made.key === key) return made.lut
  const lut = new Uint8ClampedArray(size)
  const lo = window.centre - window.width / 2
  for (let i = 0; i < size; i += 1) {
    const v = (255 * (i - lo)) / window.width
    lut[i] = invert ? 255 - v : v
  }
  Object.assign(made, { key, lut })
  return lut
}
