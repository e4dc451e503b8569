// The review room. Mounted by the page into app/widgets/review/review.html.

import { Room } from './js/room.js'
import { Keys } from './js/keys.js'
import { frame } from './js/frame.js'
import { helpSheet } from './js/help.js'
import { DRAWING, compare, leave, restore, save, takeTool, use } from './js/drawing.js'
import { decide, goTo, move, travel } from './js/reading.js'
import { get, idle } from './js/api.js'
import { arrivals } from './js/arrivals.js'
import { timeline } from './js/timeline.js'

const LAYOUT_RING = ['one', 'two', 'three', 'compare']
const MASK_RING = { outline: 'fill', fill: 'off', off: 'outline' }

export async function mount(root, studio) {
  const room = new Room(studio)
  const acts = {
    next: () => move(room),
    previous: () => move(room, { back: true }),
    unread: () => move(room, { unread: true }),
    comment: () => stage.comment.focus(),
    heat: () => room.set({ heat: !room.show.heat }),
    contour: () => room.set({ contour: !room.show.contour }),
    mask: () => room.set({ mask: MASK_RING[room.show.mask] }),
    invert: () => room.set({ invert: !room.show.invert }),
    fit: () => room.view.fit(),
    full: () => room.view.oneToOne(),
    zoomin: () => room.view.zoomAt(room.view.pane.w / 2, room.view.pane.h / 2, 1.25),
    zoomout: () => room.view.zoomAt(room.view.pane.w / 2, room.view.pane.h / 2, 0.8),
    lower: () => room.setStep(room.current() - 10),
    higher: () => room.setStep(room.current() + 10),
    layout: () => room.setLayout(LAYOUT_RING[(LAYOUT_RING.indexOf(room.show.layout) + 1) % LAYOUT_RING.length]),
    save: () => save(room),
    help: () => help.open(),
    undo: () => (room.editor.mask && room.editor.undo()) || room.editor.mask || travel(room, 'undo'),
    redo: () => (room.editor.mask && room.editor.redo()) || room.editor.mask || travel(room, 'redo'),
    roi: () => room.setInside(!room.show.inside),
    nearest: () => room.setNearest(!room.show.nearest),
    peak: () => recording.peak(),
    detector: () => {
      const runs = room.setup.runs.filter((r) => r.first)
      const at = runs.findIndex((r) => r.id === room.run)
      if (runs.length > 1) room.useRun(runs[(at + 1) % runs.length].id)
    },
    Enter: () => room.editor.points.length && room.editor.finish(),
    Escape: () => {
      if (room.editor.points.length) room.editor.points = []
      else if (room.editor.tool) room.editor.tool = null
      else if (room.editor.mask && !room.editor.dirty) leave(room)
      room.cursor()
      room.redraw()
    },
  }
  for (const name of ['normal', 'abnormal', 'unsure']) acts[name] = () => decide(room, name)
  for (const name of DRAWING) acts[name] = () => takeTool(room, name)
  const act = (name, event) => acts[name]?.(event)

  const listening = () => studio.shown(root) && !document.querySelector('dialog[open]:not(.rv-help)') && (!help.el.open || Boolean(keys.waiting))
  const keys = new Keys(act, listening)
  const stage = frame(room, keys, act)
  const help = helpSheet(room, keys)
  const recording = timeline(room, stage.line)
  Object.assign(room, {
    act,
    goTo: (id) => goTo(room, id),
    useMask: (id) => use(room, id),
    compareMask: (id) => compare(room, id),
    restore: () => restore(room),
    leaveDrawing: () => leave(room),
    entered: () => recording.follow(),
    opened: () => {
      keys.own = room.setup.keys || {}
      room.relabel()
      room.judges()
      room.arrange()
    },
  })
  root.replaceChildren(room.list.el, stage.el, room.side.el, help.el)
  room.relabel()
  room.arrange()
  arrivals(room)
  root.room = room
  root.idle = idle

  // Load when the tab is first in sight, and again when the study changes.
  let opened = null
  const show = () => {
    if (!studio.study || opened === studio.study || !studio.shown(root)) return
    opened = studio.study
    const wanted = new URL(location.href).searchParams.get('case')
    room.open(studio.study, wanted ? Number(wanted) : null)
  }
  // Whoever comes back to the tab finds what has been scored meanwhile, at the case where they were.
  const renew = async () => {
    show()
    const study = opened
    if (!room.setup || room.study !== study || !studio.shown(root)) return
    const { ok, runs } = await get('/api/review/open', { study })
    const names = (list) => list.map((r) => r.id).join()
    if (ok && room.study === study && names(runs) !== names(room.setup.runs)) room.open(study, room.detail?.id)
  }
  studio.on('study', show)
  studio.on('tab', renew)
  studio.on('case', (id) => opened && goTo(room, id))
  new ResizeObserver(show).observe(root)
  // The room fills what the page leaves of the window.
  const fit = () => studio.shown(root) && root.style.setProperty('--height', `${Math.floor(innerHeight - root.getBoundingClientRect().top - scrollY - 12)}px`)
  addEventListener('resize', fit)
  studio.on('tab', fit)
  new ResizeObserver(fit).observe(root.parentElement)
  fit()
  show()
}
