// Cases that came in meanwhile join the worklist by themselves; the case on screen and the list's place stay as they are.

import { get } from './api.js'

const PAGE = 100 // rows of the list's first page; a reader who is further down keeps the rows that are there

export function arrivals(room) {
  const { studio, list } = room
  const seen = {} // study -> when something last came in, as far as this list knows

  studio.on('status', async ({ arrived }) => {
    const { study } = room
    if (!study) return
    const last = arrived?.[study]
    if (!(study in seen)) seen[study] = last
    if (seen[study] === last || !studio.shown(list.el)) return
    seen[study] = last
    if (list.rows.size > PAGE) {
      const counts = await get('/api/review/counts', list.params())
      if (room.study !== study || !counts.ok) return
      list.counts = counts
      list.showCounts()
      return
    }
    const { scrollTop } = list.box
    const rows = await list.load()
    list.box.scrollTop = scrollTop
    if (!room.detail && rows?.length) room.goTo(rows[0].id)
  })
}
