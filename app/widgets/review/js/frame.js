// The room's frame: toolbar, panes, the bar with the three decisions.

import { h, fill, choice, inMiddle } from './dom.js'
import { gestures } from './view.js'
import { LAYOUTS } from './paint.js'
import { label } from './keys.js'

const NAMED = { image: 'Image', overlay: '', mask: 'Lesion mask', second: '', nearest: 'Nearest normal training image' }
const PRESETS = {
  CT: [['Soft tissue', 40, 400], ['Lung', -600, 1500], ['Bone', 400, 1800], ['Brain', 40, 80], ['Liver', 60, 160]],
  any: [['Dark parts', 0.22, 0.5], ['Bright parts', 0.75, 0.5], ['High contrast', 0.5, 0.45]],
}

export function frame(room, keys, act) {
  const title = h('b', { class: 'rv-title' })
  const state = h('span', { class: 'rv-state dim' })
  const zoom = h('span', { class: 'rv-zoom num dim' })
  const layouts = choice('Panes', [['one', 'One', 'One pane (L)'], ['two', 'Two', 'Image beside overlay (L)'], ['three', 'Three', 'Image, overlay, mask (L)'], ['compare', 'Compare', 'Two detectors side by side']],
    (key) => room.setLayout(key), room.show.layout)
  const button = (text, tip, name) => h('button', { type: 'button', title: tip, on: { click: () => act(name) } }, text)
  const top = h('div', { class: 'rv-top' }, title, state, h('span', { class: 'rv-gap' }), zoom, button('Fit', 'Fit the image (F)', 'fit'), button('1:1', 'One image pixel on one screen pixel (1)', 'full'), layouts.row, button('?', 'Keys (?)', 'help'))
  const judge = h('button', { type: 'button', hidden: true, title: 'Your decisions settle what readers differ on', on: { click: () => {
    room.adjudicating = !room.adjudicating
    judge.setAttribute('aria-pressed', String(room.adjudicating))
  } } }, 'Adjudicate')
  top.insertBefore(judge, zoom)
  const panes = h('div', { class: 'rv-panes' })
  const flash = h('div', { class: 'rv-flash', 'aria-live': 'polite' })
  const comment = h('input', { type: 'text', class: 'rv-comment', placeholder: 'Comment', 'aria-label': 'Comment', maxLength: 4000 })
  const decisions = new Map()
  const bar = h('div', { class: 'rv-decide' })
  for (const [name, text] of [['normal', 'Normal'], ['abnormal', 'Abnormal'], ['unsure', 'Unsure']]) {
    const key = h('kbd', {})
    const el = h('button', { type: 'button', class: `rv-say ${name}`, data: { say: name }, on: { click: () => act(name) } }, key, text)
    decisions.set(name, { el, key })
    bar.append(el)
  }
  const step = (text, name) => {
    const el = button(text, '', name)
    decisions.set(name, { el })
    return el
  }
  bar.append(comment, step('Undo', 'undo'), step('‹', 'previous'), step('›', 'next'), step('Next unread', 'unread'))
  const line = h('div', { class: 'rv-timeline', hidden: true })
  const el = h('main', { class: 'rv-stage' }, top, h('div', { class: 'rv-view' }, panes, flash), line, bar)

  const observer = new ResizeObserver(() => sized())
  function sized() {
    const ratio = devicePixelRatio || 1
    for (const pane of room.panes) {
      const box = pane.canvas.getBoundingClientRect()
      if (!box.width) return
      const w = Math.round(box.width * ratio)
      const h_ = Math.round(box.height * ratio)
      if (pane.canvas.width !== w) pane.canvas.width = w
      if (pane.canvas.height !== h_) pane.canvas.height = h_
      room.view.setPane(box.width, box.height)
    }
    room.draw()
  }

  room.arrange = () => {
    layouts.set(room.show.layout)
    observer.disconnect()
    const kinds = [...LAYOUTS[room.show.layout], ...(room.show.nearest ? ['nearest'] : [])]
    room.panes = kinds.map((kind) => {
      const canvas = h('canvas', { tabIndex: -1 })
      const caption = h('span', { class: 'rv-caption' }, NAMED[kind])
      const box = h('div', { class: 'rv-pane' }, canvas, caption)
      gestures(canvas, room.view, {
        tool: () => (room.editor.tool ? room.editor : null),
        windowing: (dx, dy) => {
          const now = room.show.window || room.picture?.full || { centre: 127.5, width: 255 }
          const gain = (room.picture?.top || 255) / 400
          room.setWindow({ centre: now.centre + dy * gain, width: now.width + dx * gain })
        },
        hover: (p) => {
          room.editor.cursor = p
          if (room.editor.tool) room.draw()
        },
      })
      observer.observe(box)
      return { kind, canvas, context: canvas.getContext('2d', { willReadFrequently: true }), box, caption }
    })
    fill(panes, room.panes.map((p) => p.box))
    panes.dataset.count = room.panes.length
    room.named()
    room.cursor()
    sized()
  }
  room.cursor = () => room.panes.forEach((p) => { p.canvas.style.cursor = room.editor.tool ? 'crosshair' : 'grab' })
  room.painted = () => { zoom.textContent = room.picture ? `${Math.round(100 * room.view.scale * (devicePixelRatio || 1))} %` : '' }
  room.comment = () => comment.value.trim()
  room.named = () => {
    const d = room.detail
    fill(title, d ? inMiddle(d.name) : 'No case')
    title.title = d ? `${d.name}: ${d.width} x ${d.height} pixels, ${d.bits} bits` : ''
    const mine = (d?.mine || []).filter((r) => r.active)
    const last = mine[mine.length - 1]
    const first = mine.find((r) => r.stage === 'first')
    state.textContent = !d ? '' : !last ? 'unread' : last.stage === 'second' ? `first ${first?.decision}, then ${last.decision}` : `you said ${last.decision}`
    const others = (d?.others || []).map((o) => `${o.reader}: ${o.decision}`).join(', ')
    if (others) state.textContent += ` · ${others}`
    if (d && d.id !== room.commented) comment.value = last?.comment || ''
    room.commented = d?.id
    for (const name of ['normal', 'abnormal', 'unsure']) decisions.get(name).el.setAttribute('aria-pressed', String(last?.decision === name))
    const of = (id) => room.setup?.runs.find((r) => r.id === id)?.title || ''
    for (const pane of room.panes) {
      if (pane.kind === 'overlay') pane.caption.textContent = room.panes.length > 1 ? of(room.run) : ''
      if (pane.kind === 'nearest') pane.caption.textContent = room.nearest ? `Nearest normal: ${room.nearest.name}` : 'Nearest normal training image'
      if (pane.kind === 'second') pane.caption.textContent = room.second ? of(room.second.run) : 'No second detector has read this case'
    }
  }
  room.judges = () => { judge.hidden = !['adjudicator', 'administrator'].includes(room.setup.rights.role) }
  room.relabel = () => {
    for (const [name, { el: b, key }] of decisions) {
      if (key) key.textContent = label(keys.of(name))
      b.title = `${b.textContent.replace(/^./, (c) => c)} (${label(keys.of(name))})`
    }
    comment.title = `Comment (${label(keys.of('comment'))})`
  }
  room.flash = (text, kind) => {
    flash.textContent = text
    flash.className = `rv-flash on ${kind}`
    clearTimeout(room.flashing)
    room.flashing = setTimeout(() => { flash.className = 'rv-flash' }, 900)
  }
  room.presets = () => {
    const { presets } = room.side
    const ct = room.detail?.modality === 'CT' && room.picture?.raw
    const items = (ct ? PRESETS.CT : PRESETS.any)
    fill(presets, h('option', { value: '' }, 'full range'), items.map(([name], i) => h('option', { value: i }, name)))
    presets.value = room.show.window ? presets.value : ''
  }
  room.preset = (value) => {
    if (value === '') {
      room.show.window = null
      return room.windowControls(), room.draw()
    }
    const [, centre, width] = (room.detail?.modality === 'CT' && room.picture?.raw ? PRESETS.CT : PRESETS.any)[value]
    const { full, top, offset = 0 } = room.picture
    const ct = room.detail?.modality === 'CT' && room.picture?.raw
    const chosen = ct ? { centre: centre - offset, width } : { centre: full.centre + (centre - 0.5) * full.width, width: width * full.width }
    room.setWindow({ centre: Math.min(chosen.centre, top), width: chosen.width })
    room.side.presets.value = value
  }
  return { el, panes, comment, line }
}
