// The help sheet: every key, and how to change it.

import { h, fill } from './dom.js'
import { ACTS, label } from './keys.js'
import { post } from './api.js'

export function helpSheet(room, keys) {
  const rows = h('div', { class: 'rv-keys' })
  const told = h('p', { class: 'dim', role: 'status' }, 'Click a key to change it.')
  const close = h('button', { type: 'button', class: 'main', on: { click: () => sheet.close() } }, 'Close')
  const sheet = h('dialog', { class: 'rv-help widget' }, h('h2', {}, 'Keys'), rows,
    h('p', { class: 'dim' }, 'Wheel or pinch zooms, drag pans, double click fits. The right button changes window and level. While drawing, Alt erases.'), told, h('div', { class: 'rv-head' }, close))
  const draw = () => fill(rows, ACTS.map(([act, , text]) => {
    const button = h('button', { type: 'button', class: 'rv-key', on: { click: async () => {
      button.textContent = 'press …'
      told.textContent = 'Press the key that shall do it; Escape keeps the old one.'
      const changed = await keys.change(act)
      if (changed?.taken) told.textContent = `${label(changed.key)} already does: ${ACTS.find(([a]) => a === changed.taken)[2]}. Change that first.`
      else {
        told.textContent = changed ? `Changed to ${label(changed.key)}.` : 'Kept.'
        if (changed) post('/api/review/settings', { keys: keys.own })
      }
      draw()
      room.relabel?.()
    } } }, label(keys.of(act)))
    return h('div', {}, button, h('span', {}, text))
  }))
  sheet.addEventListener('cancel', (event) => keys.waiting && event.preventDefault())
  sheet.addEventListener('keydown', (event) => {
    if (!keys.waiting && event.key.toLowerCase() === keys.of('help')) {
      event.stopPropagation()
      sheet.close()
    }
  })
  return { el: sheet, open() {
    draw()
    if (!sheet.open) sheet.showModal()
  } }
}
