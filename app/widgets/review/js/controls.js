// The panel at the right: what the score means, the heat map, the image, the lesion mask.

import { h, fill, choice, slider, percent } from './dom.js'
import { MAPS, gradient } from './colours.js'
import { STEPS } from './heat.js'
import { maskPanel } from './mask_panel.js'

export function controls(room) {
  const { show } = room
  const parts = { scale: scaleOf(room) }
  parts.opacity = slider('Opacity', { value: Math.round(100 * show.opacity), title: 'How much of the heat map covers the image', text: (v) => `${v} %`,
    input: (v) => room.set({ opacity: v / 100 }) })
  parts.threshold = slider('Threshold', { max: STEPS, value: 500, title: 'Where the contour is drawn ( [ and ] )',
    text: (v) => percent(v / STEPS), input: (v) => room.setStep(v) })
  parts.threshold.range.classList.add('rv-threshold')
  parts.colours = h('select', { title: 'Colour map, safe for colour-blind eyes', 'aria-label': 'Colour map', on: { change: () => room.set({ colours: parts.colours.value }) } },
    MAPS.map((m) => h('option', { value: m }, m)))
  parts.colours.value = show.colours
  parts.legend = h('div', { class: 'rv-legend', title: 'One scale for all cases of this run; held-out normals stay in its lower half' })
  parts.heat = toggle('Heat map', 'H', () => room.set({ heat: !room.show.heat }))
  parts.contour = toggle('Contour', 'O', () => room.set({ contour: !room.show.contour }))
  parts.roi = toggle('Region', 'R', () => room.act('roi'))
  parts.roi.title = 'Heat map inside the region of interest only; off: everywhere, with the region outlined (R)'
  parts.nearest = toggle('Nearest', 'X', () => room.act('nearest'))
  parts.nearest.title = 'The most similar normal training image beside the case (X)'
  parts.numbers = {
    dice: h('dd', { class: 'rv-dice' }, '–'), iou: h('dd', {}, '–'), area: h('dd', {}, '–'), count: h('dd', {}, '–'),
  }
  const said = (title, el, tip) => h('div', { title: tip }, h('dt', {}, title), el)
  const numbers = h('dl', { class: 'rv-numbers num' },
    said('Dice', parts.numbers.dice, 'Overlap of the contour with the lesion mask on screen'), said('IoU', parts.numbers.iou, 'Intersection over union with the lesion mask on screen'),
    said('Area', parts.numbers.area, 'Share of the image at or above the threshold'), said('Regions', parts.numbers.count, 'Connected regions at or above the threshold'))

  parts.level = slider('Level', { max: 255, value: 128, title: 'Window level (drag with the right button)', input: (v) => room.setWindow({ centre: v }) })
  parts.width = slider('Window', { min: 1, max: 255, value: 255, title: 'Window width (drag with the right button)', input: (v) => room.setWindow({ width: v }) })
  parts.presets = h('select', { 'aria-label': 'Window presets', title: 'Window presets', on: { change: () => room.preset(parts.presets.value) } })
  parts.invert = toggle('Invert', 'I', () => room.set({ invert: !room.show.invert }))

  parts.detectors = h('div', { class: 'rv-choice', role: 'group', 'aria-label': 'Detector' })
  parts.mask = maskPanel(room)
  parts.ai = h('section', { class: 'rv-ai' },
    h('div', { class: 'rv-head' }, h('h3', {}, 'Reading')), parts.detectors, parts.scale.el,
    h('div', { class: 'rv-head rv-toggles' }, parts.heat, parts.contour, parts.roi, parts.nearest), parts.opacity.row,
    h('div', { class: 'rv-colours' }, parts.colours, parts.legend), parts.threshold.row, numbers)
  parts.veil = h('section', { class: 'rv-veil' }, h('h3', {}, 'Blind reading'),
    h('p', {}, 'Decide first. The score, the heat map and the lesion mask are shown once your decision is on disk; then you may keep it or change it.'))
  parts.el = h('aside', { class: 'rv-side panel' }, parts.veil, parts.ai,
    h('section', {}, h('div', { class: 'rv-head' }, h('h3', {}, 'Image'), parts.presets, parts.invert), parts.level.row, parts.width.row),
    parts.mask.el)
  return parts
}

export function toggle(text, key, click) {
  return h('button', { type: 'button', class: 'rv-toggle', title: `${text} (${key})`, 'aria-pressed': 'false', on: { click } }, text)
}

// The percentile on a line from 0 to 100, with the flagging threshold marked.
function scaleOf() {
  const dot = h('i', { class: 'rv-dot' })
  const number = h('b', { class: 'num' })
  const flag = h('span', { class: 'rv-flag' })
  const words = h('p', { class: 'rv-words' })
  const sure = { steady: h('p', { class: 'rv-sure', hidden: true }), members: h('p', { class: 'rv-sure', hidden: true }) }
  const el = h('div', { class: 'rv-scale' }, h('div', { class: 'rv-scale-top' }, number, flag),
    h('div', { class: 'rv-line', role: 'img', 'aria-label': 'Percentile of held-out normals' }, h('i', { class: 'rv-cut' }), dot), words, sure.members, sure.steady)
  const set = (reading) => {
    const known = reading && reading.percentile !== null && reading.percentile !== undefined
    number.textContent = known ? `${reading.percentile.toFixed(1)} %` : '–'
    flag.textContent = known ? (reading.flagged ? 'flagged' : 'not flagged') : ''
    flag.className = `rv-flag ${known && reading.flagged ? 'on' : ''}`
    dot.hidden = !known
    if (known) dot.style.left = `${reading.percentile}%`
    for (const [name, line] of Object.entries(sure)) {
      const said = reading?.[name]
      line.hidden = !said
      if (!said) continue
      line.textContent = said.words
      line.title = said.more
      line.classList.toggle('not', !said.ok)
    }
    words.textContent = reading ? reading.words : 'This run has not scored the case yet.'
  }
  return { el, set }
}

export function detectors(parts, room) {
  const runs = room.setup.runs.filter((r) => r.first)
  const pick = choice('Detector', runs.map((r) => [r.id, r.title, `${r.name} (${r.id})`]), (id) => room.useRun(id), room.run)
  const nodes = [...pick.row.children]
  const rest = room.setup.runs.filter((r) => !r.first)
  if (rest.length) {
    const all = h('select', { 'aria-label': 'Another run', title: 'Another run', on: { change: () => all.value && room.useRun(all.value) } },
      h('option', { value: '' }, '…'), rest.map((r) => h('option', { value: r.id }, `${r.name} · ${r.encoder || ''} · ${r.created.slice(0, 10)}`)))
    all.value = rest.some((r) => r.id === room.run) ? room.run : ''
    nodes.push(all)
  }
  fill(parts.detectors, nodes.length ? nodes : h('p', { class: 'dim' }, 'No run has scored this study yet. Train and fit one in Training.'))
}

export function reflect(parts, room) {
  const { show } = room
  const press = (el, on) => el.setAttribute('aria-pressed', String(on))
  press(parts.heat, show.heat)
  press(parts.contour, show.contour)
  press(parts.roi, show.inside)
  press(parts.nearest, show.nearest)
  press(parts.invert, show.invert)
  parts.colours.value = show.colours
  parts.legend.style.background = gradient(show.colours)
  parts.opacity.set(Math.round(100 * show.opacity))
  parts.mask.reflect()
}

export function numbers(parts, { at, components, pixels }) {
  parts.numbers.dice.textContent = at && at.dice !== null ? at.dice.toFixed(3) : '–'
  parts.numbers.iou.textContent = at && at.iou !== null ? at.iou.toFixed(3) : '–'
  parts.numbers.area.textContent = at ? percent(at.share) : '–'
  parts.numbers.area.title = at ? `${at.area} of ${pixels} pixels` : ''
  parts.numbers.count.textContent = components ?? '–'
}
