// The score over a recording's frames or a volume's slices, under the viewer: click a frame, or go to the next peak.

import { get } from './api.js'

const LOOK = 12 // frames on either side that a peak must rise above

export function timeline(room, line) {
  const { el } = room.studio
  let frames = []
  let held = ''
  let last = null

  async function follow() {
    const { detail } = room
    if (!detail?.frames || detail.frames < 2 || detail.blind) {
      line.hidden = true
      return
    }
    const key = `${room.study}/${room.run}/${detail.recording}/${detail.frames}` // slices may still come in
    if (held !== key || !frames.some((f) => f.id === detail.id)) {
      const got = await get(`/api/review/timeline/${detail.id}`, { run: room.run })
      if (room.detail !== detail) return
      frames = got.ok ? got.frames : []
      held = key
    }
    if (last !== detail.id) draw()
    last = detail.id
  }

  function draw() {
    line.hidden = frames.length < 2
    if (line.hidden) return
    const width = 1000
    const x = (i) => ((i + 0.5) * width) / frames.length
    const y = (p) => 50 - 0.46 * (p ?? 0)
    const path = frames.map((f, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(f.percentile).toFixed(1)}`).join(' ')
    const at = frames.findIndex((f) => f.id === room.detail.id)
    const svg = el('svg', { viewBox: `0 0 ${width} 54`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Score over the frames',
      onclick: (event) => {
        const box = svg.getBoundingClientRect()
        const i = Math.min(frames.length - 1, Math.floor(((event.clientX - box.left) / box.width) * frames.length))
        room.goTo(frames[i].id)
      } },
    el('line', { x1: 0, x2: width, y1: y(95), y2: y(95), stroke: 'var(--warn)', 'stroke-dasharray': '4 5', 'vector-effect': 'non-scaling-stroke' }),
    el('path', { d: path, fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.5, 'vector-effect': 'non-scaling-stroke' }),
    el('line', { x1: x(at), x2: x(at), y1: 0, y2: 54, stroke: 'var(--text)', 'vector-effect': 'non-scaling-stroke' }))
    line.replaceChildren(svg)
  }

  function peak() {
    if (frames.length < 2 || line.hidden) return room.say('This case is a single image; peaks belong to recordings and volumes.')
    const score = (i) => frames[i]?.score ?? -Infinity
    const isPeak = (i) => {
      for (let d = 1; d <= LOOK; d += 1) if (score(i - d) >= score(i) || score(i + d) > score(i)) return false
      return score(i) > -Infinity
    }
    const at = frames.findIndex((f) => f.id === room.detail.id)
    for (let step = 1; step <= frames.length; step += 1) {
      const i = (at + step) % frames.length
      if (isPeak(i)) return room.goTo(frames[i].id)
    }
    return room.say('The score has no peak here.')
  }

  return { follow, peak }
}
