// The mask being drawn: tools, undo by stroke, and the picture of it that is laid over the image.

import { boxOf, componentAt, fillHoles, smooth } from './regions.js'
import { cut, join, paste, polygon, stroke } from './shapes.js'
import { sampler } from './heat.js'

const UNDO_BYTES = 256 * 1024 * 1024

export class Editor {
  constructor(changed) {
    this.changed = changed
    this.size = 24
    this.tool = null
    this.close()
  }

  close() {
    this.mask = null
    this.canvas = null
    this.history = []
    this.future = []
    this.points = []
    this.origin = null // what the drawing began from: {source, run, threshold}
    this.dirty = false
  }

  // Start from a mask (copied) or from nothing.
  open(w, h, mask = null) {
    this.close()
    this.w = w
    this.h = h
    this.mask = mask ? mask.slice() : new Uint8Array(w * h)
    this.canvas = document.createElement('canvas')
    this.canvas.width = w
    this.canvas.height = h
    if (mask) this.tint(boxOf(mask, w, h))
  }

  tint(box) {
    if (!box) return
    const bw = box.x1 - box.x0 + 1
    const bh = box.y1 - box.y0 + 1
    const image = new ImageData(bw, bh)
    const words = new Uint32Array(image.data.buffer)
    for (let y = 0; y < bh; y += 1) {
      const from = (box.y0 + y) * this.w + box.x0
      for (let x = 0; x < bw; x += 1) if (this.mask[from + x]) words[y * bw + x] = 0x73a3d62f // ABGR of LINES.edit
    }
    this.canvas.getContext('2d').putImageData(image, box.x0, box.y0)
  }

  // Run `change` (returns the box it touched) as one step of the history.
  step(change) {
    const before = this.mask.slice()
    this.commit(before, change())
  }

  commit(before, box) {
    if (!box) return
    const entry = { box, before: cut(before, this.w, box), after: cut(this.mask, this.w, box) }
    if (entry.before.every((v, i) => v === entry.after[i])) return
    this.history.push(entry)
    this.future = []
    let bytes = this.history.reduce((sum, e) => sum + 2 * e.before.length, 0)
    while (bytes > UNDO_BYTES && this.history.length > 1) bytes -= 2 * this.history.shift().before.length
    this.dirty = true
    this.tint(box)
    this.changed()
  }

  undo() {
    return this.travel(this.history, this.future, 'before')
  }

  redo() {
    return this.travel(this.future, this.history, 'after')
  }

  travel(from, to, which) {
    if (this.points.length) {
      this.points.pop()
      this.changed()
      return true
    }
    const entry = from.pop()
    if (!entry) return false
    paste(this.mask, this.w, entry.box, entry[which])
    to.push(entry)
    this.tint(entry.box)
    this.changed()
    return true
  }

  down(p, event) {
    const value = this.tool === 'erase' || event?.altKey ? 0 : 1
    if (this.tool === 'brush' || this.tool === 'erase') {
      this.active = { before: this.mask.slice(), last: p, box: null, value }
      this.move(p)
    } else if (this.tool === 'polygon') {
      const first = this.points[0]
      if (first && this.points.length > 2 && Math.hypot(first.x - p.x, first.y - p.y) < this.near) this.finish(value)
      else this.points.push(p)
      this.changed()
    } else if (this.tool === 'take') this.take?.(p)
  }

  move(p) {
    this.cursor = p
    if (this.active) {
      const touched = stroke(this.mask, this.w, this.h, this.active.last, p, this.size / 2, this.active.value)
      this.active.box = join(this.active.box, touched)
      this.active.last = p
      this.tint(touched)
    }
    this.changed()
  }

  up() {
    if (!this.active) return
    const { before, box } = this.active
    this.active = null
    this.commit(before, box)
  }

  finish(value = 1) {
    const points = this.points
    this.points = []
    if (points.length > 2) this.step(() => polygon(this.mask, this.w, this.h, points, value))
    this.changed()
  }

  fillHoles() {
    this.step(() => fillHoles(this.mask, this.w, this.h))
  }

  smooth() {
    this.step(() => smooth(this.mask, this.w, this.h, Math.max(2, Math.round(Math.max(this.w, this.h) / 200))))
  }

  clear() {
    this.step(() => {
      const box = boxOf(this.mask, this.w, this.h)
      this.mask.fill(0)
      return box
    })
  }

  // Add the heat map's component under p, at threshold `level`. False if the map lies below it there.
  takeComponent(map, field, level, p) {
    const sx = field.w / this.w
    const sy = field.h / this.h
    const found = componentAt(field, level, Math.floor(p.x * sx), Math.floor(p.y * sy))
    if (!found) return false
    const { inside, box } = found
    const near = (gx, gy) => {
      for (let y = Math.max(gy - 1, 0); y <= Math.min(gy + 1, field.h - 1); y += 1)
        for (let x = Math.max(gx - 1, 0); x <= Math.min(gx + 1, field.w - 1); x += 1) if (inside[y * field.w + x]) return true
      return false
    }
    this.step(() => {
      const touched = {
        x0: Math.max(Math.floor((box.x0 - 1) / sx), 0), x1: Math.min(Math.ceil((box.x1 + 2) / sx), this.w - 1),
        y0: Math.max(Math.floor((box.y0 - 1) / sy), 0), y1: Math.min(Math.ceil((box.y1 + 2) / sy), this.h - 1),
      }
      const row = new Float32Array(this.w)
      const fillRow = sampler(map, this.w, this.h)
      for (let y = touched.y0; y <= touched.y1; y += 1) {
        fillRow(y, row)
        const gy = Math.floor((y + 0.5) * sy)
        for (let x = touched.x0; x <= touched.x1; x += 1)
          if (row[x] >= level && near(Math.floor((x + 0.5) * sx), gy)) this.mask[y * this.w + x] = 1
      }
      return touched
    })
    return true
  }
}
