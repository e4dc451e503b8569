// Drawing a lesion mask: tools in hand, versions on screen, saving.

import { enqueue, post, postBytes } from './api.js'
import { pack } from './shapes.js'
import * as layers from './layers.js'
import { overlap } from './measure.js'

export const DRAWING = ['brush', 'erase', 'polygon', 'take']

export function takeTool(room, tool) {
  const { editor, picture } = room
  if (!picture || room.detail.blind) return
  if (editor.tool === tool) editor.tool = null
  else {
    editor.tool = tool
    if (!editor.mask) {
      // A new version begins from the one on screen.
      editor.open(picture.w, picture.h, room.lesion?.pixels)
      editor.origin = { source: 'hand' }
      editor.size = Math.max(3, Math.min(editor.size, Math.round(Math.min(picture.w, picture.h) / 4)))
    }
    editor.take = (p) => {
      if (!room.heat) return
      if (!editor.takeComponent(room.heat.map, room.heat.field, room.heat.level, p)) room.say('The heat map lies below the threshold there. Lower it, or click inside the contour.')
      else if (!room.lesion && editor.history.length === 1) editor.origin = { source: 'run', run: room.run, threshold: room.heat.level }
    }
  }
  if (tool !== 'polygon') editor.points = []
  room.cursor?.()
  room.redraw()
}

export function leave(room) {
  room.editor.close()
  room.editor.tool = null
  room.cursor?.()
  room.redraw()
}

export function save(room) {
  const { editor, detail } = room
  if (!editor.mask) return room.say('There is no drawn mask to save. Take the brush (B) first.')
  if (editor.points.length > 2) editor.finish()
  return enqueue(async () => {
    const label = room.side.mask.label()
    const run = editor.origin?.source === 'run' && editor.history.length === 1 ? editor.origin : { source: 'hand' }
    const params = { source: run.source, label }
    if (run.run) Object.assign(params, { run: run.run, threshold: run.threshold })
    const drawn = editor.mask
    const answer = await postBytes(`/api/review/mask/${detail.id}`, params, pack(drawn))
    if (!answer.ok) return room.say(answer.error, 'bad')
    if (room.detail?.id !== detail.id) return
    room.detail.masks = answer.masks
    leave(room)
    await use(room, answer.mask)
    room.say(`Saved as version ${answer.version} (${answer.pixels} pixels).`, 'good')
  })
}

export async function use(room, id) {
  const { detail } = room
  const lesion = id ? await layers.masks.get(`${detail.id}/${id}`, detail.id, id) : null
  if (room.detail?.id !== detail.id) return
  room.lesion = lesion
  room.maskId = id
  if (room.heat) room.settle()
  room.redraw()
}

export async function compare(room, id) {
  const { detail } = room
  const other = id ? await layers.masks.get(`${detail.id}/${id}`, detail.id, id) : null
  if (room.detail?.id !== detail.id) return
  room.other = other
  room.otherId = id
  room.redraw()
  if (other && room.lesion) {
    const { dice, iou } = overlap(room.lesion.pixels, other.pixels)
    room.say(`The two versions: Dice ${dice.toFixed(3)}, IoU ${iou.toFixed(3)}.`)
  }
}

export function restore(room) {
  return enqueue(async () => {
    const { detail, maskId } = room
    if (!maskId) return
    const answer = await post(`/api/review/restore/${maskId}`)
    if (!answer.ok) return room.say(answer.error, 'bad')
    room.detail.masks = answer.masks
    if (room.detail.id === detail.id) await use(room, answer.mask)
    room.say(`Restored as version ${answer.version}.`, 'good')
  })
}
