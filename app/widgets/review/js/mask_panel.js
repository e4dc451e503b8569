// Lesion masks: which version is on screen, what it is compared with, and the tools to draw a new one.

import { h, fill, slider } from './dom.js'
import { toggle } from './controls.js'

const TOOLS = [
  ['brush', 'Brush', 'B'], ['erase', 'Erase', 'E'], ['polygon', 'Polygon', 'P'], ['take', 'Take', 'T'],
]
const FROM = { import: 'imported', hand: 'by hand', run: 'from a run' }

export function maskPanel(room) {
  const pick = (label, change) => h('select', { 'aria-label': label, title: label, on: { change } })
  const which = pick('Version of the lesion mask', () => room.useMask(Number(which.value) || null))
  const other = pick('Compare with another version', () => room.compareMask(Number(other.value) || null))
  const style = toggle('Outline', 'M', () => room.act('mask'))
  const restore = h('button', { type: 'button', title: 'Make this version the newest one', on: { click: () => room.restore() } }, 'Restore')
  const tools = new Map(TOOLS.map(([name, text, key]) => [name, toggle(text, key, () => room.act(name))]))
  tools.get('take').title = 'Click a region of the heat map to take it at the threshold (T)'
  const size = slider('Size', { min: 1, max: 200, value: 24, title: 'Brush size in image pixels', text: (v) => `${v} px`, input: (v) => {
    room.editor.size = v
  } })
  const button = (text, title, click) => h('button', { type: 'button', title, on: { click } }, text)
  const undo = button('Undo', 'Undo the last stroke (Z)', () => room.editor.undo())
  const holes = button('Fill holes', 'Fill the holes of the drawn mask', () => room.editor.fillHoles())
  const soft = button('Smooth', 'Smooth the outline of the drawn mask', () => room.editor.smooth())
  const clear = button('Clear', 'Empty the drawn mask', () => room.editor.clear())
  const leave = button('Discard', 'Leave the drawing without saving it', () => room.leaveDrawing())
  const save = h('button', { type: 'button', class: 'main', title: 'Save as a new version (S)', on: { click: () => room.act('save') } }, 'Save version')
  const label = h('select', { 'aria-label': 'Finding', title: 'What the mask shows' })
  const editing = h('div', { class: 'rv-editing' }, size.row, h('div', { class: 'rv-head' }, undo, holes, soft, clear),
    h('div', { class: 'rv-head' }, label, leave, save))
  const shown = h('div', { class: 'rv-versions' }, h('div', { class: 'rv-head' }, which, restore), h('div', { class: 'rv-head rv-other' }, other))
  const el = h('section', { class: 'rv-maskpanel' }, h('div', { class: 'rv-head' }, h('h3', {}, 'Lesion mask'), style), shown,
    h('div', { class: 'rv-head rv-tools' }, [...tools.values()]), editing)

  const text = (m) => `v${m.version} ${FROM[m.source]}${m.reader ? `, ${m.reader}` : ''}${m.source === 'import' ? '' : `, ${m.created}`}`
  function versions() {
    const masks = room.detail?.masks || []
    const options = (first) => [h('option', { value: '' }, first), ...masks.map((m) => h('option', { value: m.id, title: m.note }, text(m)))]
    fill(which, options(masks.length ? 'no mask' : 'no mask yet'))
    fill(other, options('compare with …'))
    which.value = room.maskId || ''
    other.value = room.otherId || ''
    which.disabled = !masks.length
    other.parentElement.hidden = masks.length < 2
    restore.hidden = masks.length < 2 || room.maskId === masks[0].id || !room.maskId
  }
  function reflect() {
    style.textContent = { outline: 'Outline', fill: 'Filled', off: 'Hidden' }[room.show.mask]
    style.setAttribute('aria-pressed', String(room.show.mask !== 'off'))
    el.hidden = Boolean(room.detail?.blind)
    const drawing = Boolean(room.editor.mask)
    editing.hidden = !drawing
    shown.hidden = drawing
    for (const [name, b] of tools) b.setAttribute('aria-pressed', String(room.editor.tool === name))
    tools.get('take').disabled = !room.heat
    undo.disabled = !room.editor.history.length && !room.editor.points.length
    save.disabled = !room.editor.dirty
    size.set(room.editor.size)
    if (!label.options.length) fill(label, h('option', { value: '' }, 'finding …'), (room.setup?.labels || []).map((l) => h('option', { value: l }, l)))
    versions()
  }
  return { el, reflect, label: () => label.value, freshLabels: () => label.replaceChildren() }
}
