// Draws the panes. Everything on them is already in the browser: no request, one frame.

import { LINES } from './colours.js'

// What each layout shows, pane by pane.
export const LAYOUTS = {
  one: ['overlay'],
  two: ['image', 'overlay'],
  three: ['image', 'overlay', 'mask'],
  compare: ['overlay', 'second'],
}

export function paint(room) {
  const { view, picture, show } = room
  for (const pane of room.panes) {
    const context = pane.context
    context.setTransform(1, 0, 0, 1, 0, 0)
    context.clearRect(0, 0, pane.canvas.width, pane.canvas.height)
    if (!picture) continue
    if (pane.kind === 'nearest') {
      beside(context, room)
      continue
    }
    if (pane.kind !== 'mask') picture.draw(context, view, show.window, show.invert)
    const ratio = devicePixelRatio || 1
    const scale = view.scale * ratio
    context.setTransform(scale, 0, 0, scale, view.dx * ratio, view.dy * ratio)
    if (pane.kind === 'mask') maskAlone(context, room)
    if (pane.kind === 'overlay') heat(context, room, room.heat, scale)
    if (pane.kind === 'second') heat(context, room, room.second, scale)
    if (pane.kind !== 'image') lines(context, room, scale)
    if (pane.kind !== 'mask') drawing(context, room, scale)
  }
}

// The nearest normal image takes the place and size of the case's own, so that zoom and pan keep both in step.
function beside(context, { view, nearest, picture, show }) {
  if (!nearest) return
  const near = nearest.picture
  const scale = view.scale * Math.min(picture.w / near.w, picture.h / near.h)
  const middle = { dx: view.dx + (view.scale * picture.w - scale * near.w) / 2, dy: view.dy + (view.scale * picture.h - scale * near.h) / 2 }
  near.draw(context, { scale, ...middle }, near.top === picture.top ? show.window : null, show.invert)
}

function heat(context, room, layer, scale) {
  if (!layer) return
  const { show, picture } = room
  if (show.heat) {
    context.globalAlpha = show.opacity
    context.imageSmoothingEnabled = true
    context.drawImage(layer.canvas, 0, 0, picture.w, picture.h)
    context.globalAlpha = 1
  }
  if (show.contour && layer.contour) {
    context.save()
    context.scale(picture.w / layer.field.w, picture.h / layer.field.h)
    trace(context, layer.contour, LINES.contour, 1.6, (scale * picture.w) / layer.field.w)
    context.restore()
  }
}

function trace(context, path, colour, width, scale, dash = []) {
  context.lineJoin = 'round'
  const ratio = devicePixelRatio || 1
  context.setLineDash(dash.map((d) => (d * ratio) / scale))
  context.strokeStyle = LINES.halo
  context.lineWidth = ((width + 1.6) * ratio) / scale
  context.stroke(path)
  context.strokeStyle = colour
  context.lineWidth = (width * ratio) / scale
  context.stroke(path)
  context.setLineDash([])
}

function lines(context, room, scale) {
  const { lesion, other, roi, show } = room
  if (!show.inside && roi) {
    context.save()
    context.scale(room.picture.w / roi.w, room.picture.h / roi.h)
    outlined(context, roi, LINES.roi, (scale * room.picture.w) / roi.w, [5, 5])
    context.restore()
  }
  if (show.mask === 'off' || room.editor.mask) return
  if (lesion && show.mask === 'fill') {
    context.globalAlpha = 0.45
    context.drawImage(lesion.canvas, 0, 0)
    context.globalAlpha = 1
  }
  if (lesion) outlined(context, lesion, LINES.lesion, scale)
  if (other) outlined(context, other, LINES.other, scale, [6, 4])
}

function outlined(context, mask, colour, scale, dash = []) {
  context.save()
  context.scale(mask.outline.scale, mask.outline.scale)
  trace(context, mask.outline.path, colour, 1.8, scale * mask.outline.scale, dash)
  context.restore()
}

function maskAlone(context, room) {
  context.fillStyle = '#000'
  context.fillRect(0, 0, room.picture.w, room.picture.h)
  context.imageSmoothingEnabled = false
  if (room.editor.mask) context.drawImage(room.editor.canvas, 0, 0)
  else if (room.lesion) context.drawImage(room.lesion.canvas, 0, 0)
}

function drawing(context, room, scale) {
  const { editor } = room
  if (!editor.mask) return
  const ratio = devicePixelRatio || 1
  context.imageSmoothingEnabled = false
  context.drawImage(editor.canvas, 0, 0)
  editor.near = (10 * ratio) / scale
  if (editor.points.length) {
    const path = new Path2D()
    editor.points.forEach((p, i) => path[i ? 'lineTo' : 'moveTo'](p.x, p.y))
    if (editor.cursor) path.lineTo(editor.cursor.x, editor.cursor.y)
    trace(context, path, LINES.edit, 1.6, scale)
    const first = new Path2D()
    first.arc(editor.points[0].x, editor.points[0].y, (4 * ratio) / scale, 0, 2 * Math.PI)
    trace(context, first, LINES.edit, 1.6, scale)
  }
  if (editor.cursor && (editor.tool === 'brush' || editor.tool === 'erase')) {
    const ring = new Path2D()
    ring.arc(editor.cursor.x, editor.cursor.y, editor.size / 2, 0, 2 * Math.PI)
    trace(context, ring, editor.tool === 'erase' ? '#fff' : LINES.edit, 1.2, scale)
  }
}
