// Reading: decisions, next and previous, undo across cases. All through one promise chain.

import { enqueue, get, post } from './api.js'

const SAID = { normal: 'Normal', abnormal: 'Abnormal', unsure: 'Unsure' }

// What the reader saw when deciding; it goes into the audit trail.
function shown(room) {
  const { show, detail } = room
  if (!detail || detail.blind) return { blind: true }
  return {
    run: room.run, threshold: room.heat ? room.heat.level : null, heat: show.heat && Boolean(room.heat), contour: show.contour,
    opacity: show.opacity, mask: show.mask, mask_version: room.maskId, layout: show.layout,
  }
}

export function decide(room, decision) {
  return enqueue(async () => {
    const { detail } = room
    if (!detail) return
    const answer = await post('/api/review/decide', {
      case: detail.id, decision, comment: room.comment(), run: room.run, shown: shown(room),
      seconds: (performance.now() - room.since) / 1000, list: room.list.params(), adjudication: room.adjudicating || undefined,
    })
    if (!answer.ok) return room.say(answer.error, 'bad')
    const next = answer.next
    const again = next && next.id === detail.id
    const reading = again && next.readings?.[room.run]
    room.list.decided(detail.id, decision, reading ? { percentile: reading.percentile, flagged: reading.flagged } : {})
    if (next) await room.enter(next, answer.ahead)
    else {
      const fresh = await get(`/api/review/case/${detail.id}`, room.list.params())
      if (fresh.ok) await room.enter(fresh.case)
      room.say('That was the last case of this list.', 'good')
    }
    room.flash(`${SAID[decision]}${again ? ' (first decision kept; now with the reading)' : ''}`, decision)
  })
}

export function move(room, { back = false, unread = false } = {}) {
  return enqueue(async () => {
    const params = { ...room.list.params(), case: room.detail?.id || 0, back: back ? 1 : 0, unread: unread ? 1 : 0 }
    let found = await get('/api/review/step', params)
    if (found.ok && !found.case && unread) found = await get('/api/review/step', { ...params, case: 0 })
    if (!found.ok) return room.say(found.error, 'bad')
    if (!found.case) return room.say(unread ? 'Every case of this list is read.' : back ? 'This is the first case.' : 'This is the last case.')
    await room.enter(found.case, found.ahead)
  })
}

export function goTo(room, id) {
  return enqueue(async () => {
    const found = await get(`/api/review/case/${id}`, room.list.params())
    if (!found.ok) return room.say(found.error, 'bad')
    await room.enter(found.case)
  })
}

export function travel(room, which) {
  return enqueue(async () => {
    const answer = await post(`/api/review/${which}`, { study: room.study, list: room.list.params() })
    if (!answer.ok) return room.say(answer.error)
    room.list.decided(answer.case, answer.decision)
    await room.enter(answer.next)
    room.flash(`${which === 'undo' ? 'Undone' : 'Redone'}: ${answer.decision ? SAID[answer.decision] : 'undecided'}`, answer.decision || 'unread')
  })
}
