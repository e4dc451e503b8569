// The worklist: rows are fetched page by page as the reader scrolls; order and filters are the server's.

import { h, fill, inMiddle } from './dom.js'
import { get } from './api.js'

const SORTS = [
  ['percentile', 'Percentile'], ['disagreement', 'Disagreement'], ['name', 'Name'], ['added', 'Added'], ['reviewed', 'Read'],
]
const FILTERS = [
  ['', 'All cases'], ['unread', 'Unread'], ['read', 'Read'], ['normal', 'Normal'], ['abnormal', 'Abnormal'], ['unsure', 'Unsure'],
  ['against', 'Against the reading'],
]
export const MARK = { normal: 'N', abnormal: 'A', unsure: 'U' }

export class Worklist {
  constructor(room) {
    this.room = room
    this.rows = new Map()
    this.asked = { sort: 'percentile', desc: 1, decision: '', flagged: '', text: '', has_mask: '', assigned: '' }
    const select = (label, items, key) => {
      const el = h('select', { 'aria-label': label, title: label, on: { change: () => this.change({ [key]: el.value }) } },
        items.map(([value, text]) => h('option', { value }, text)))
      return el
    }
    this.sort = select('Order of the worklist', SORTS, 'sort')
    this.way = h('button', { type: 'button', class: 'rv-icon', title: 'Turn the order round', on: { click: () => this.change({ desc: 1 - this.asked.desc }) } }, '↓')
    this.filter = select('Which cases', FILTERS, 'decision')
    this.flagged = select('Flagged or not', [['', 'Any flag'], ['1', 'Flagged'], ['0', 'Not flagged']], 'flagged')
    this.masked = select('With a lesion mask or not', [['', 'Any mask'], ['1', 'With mask'], ['0', 'No mask']], 'has_mask')
    this.mine = select('Assigned to me', [['', 'Anyone’s'], ['1', 'Mine']], 'assigned')
    this.text = h('input', { type: 'text', placeholder: 'Find a name', 'aria-label': 'Find a name' })
    let wait = null
    this.text.addEventListener('input', () => {
      clearTimeout(wait)
      wait = setTimeout(() => this.change({ text: this.text.value }), 250)
    })
    this.box = h('div', { class: 'rv-rows', role: 'list', 'aria-label': 'Worklist', on: { scroll: () => this.more() } })
    this.bar = h('div', { class: 'rv-bar' })
    this.tally = h('div', { class: 'rv-tally num' })
    this.open = h('div', { class: 'rv-filters' },
      h('div', { class: 'rv-pair' }, this.sort, this.way), this.filter, this.flagged, this.masked, this.mine, this.text)
    this.el = h('aside', { class: 'rv-list panel' }, this.open, this.tally, this.bar, this.box)
  }

  params() {
    return { study: this.room.study, run: this.room.run || '', ...this.asked }
  }

  change(values) {
    Object.assign(this.asked, values)
    this.way.textContent = this.asked.desc ? '↓' : '↑'
    return this.load()
  }

  async load() {
    const nonce = (this.nonce = Symbol('load'))
    const blinded = this.room.setup?.blinded
    for (const el of [this.sort, this.way, this.flagged, this.masked, this.text]) el.disabled = Boolean(blinded)
    const [list, counts] = await Promise.all([get('/api/review/list', this.params()), get('/api/review/counts', this.params())])
    if (nonce !== this.nonce) return
    if (!list.ok) return this.room.say(list.error, 'bad')
    this.rows.clear()
    this.box.replaceChildren()
    this.box.scrollTop = 0
    this.cursor = list.cursor
    this.add(list.rows)
    if (!list.rows.length) this.box.append(h('p', { class: 'dim rv-none' }, this.asked.decision || this.asked.text || this.asked.flagged ? 'No case answers these filters.' : 'This study has no test cases yet.'))
    this.counts = counts
    this.showCounts()
    this.mark(this.room.detail?.id)
    return list.rows
  }

  add(rows) {
    for (const row of rows) {
      const el = this.draw(row)
      this.rows.set(row.id, { row, el })
      this.box.append(el)
    }
  }

  draw(row) {
    const seen = row.percentile !== undefined
    const what = row.decision || 'unread'
    return h('div', {
      class: `rv-row ${row.flagged ? 'flagged' : ''}`, role: 'listitem', tabIndex: -1, data: { id: row.id },
      title: row.name, on: { click: () => this.room.goTo(row.id) },
    },
      h('img', { src: `/api/case/${row.id}/thumb.png?size=80&v=${row.v}`, width: 40, height: 34, loading: 'lazy', alt: '', decoding: 'async' }),
      h('span', { class: 'rv-name' }, inMiddle(row.name.replace(/\.[a-z]{2,5}$/i, ''), 7)),
      h('span', { class: 'rv-pct num', title: row.flagged ? 'Flagged' : '' }, seen && row.percentile !== null ? row.percentile.toFixed(1) : '–'),
      h('span', { class: `rv-mark ${what}`, title: what }, MARK[row.decision] || ''),
      row.disagreement > 0 && h('span', { class: 'rv-differ', title: 'Readers differ' }, '≠'))
  }

  // A decision changes its own row and the counts; nothing else moves.
  decided(id, decision, extra = {}) {
    const held = this.rows.get(id)
    if (held) {
      const before = held.row.decision
      Object.assign(held.row, extra, { decision })
      const el = this.draw(held.row)
      held.el.replaceWith(el)
      held.el = el
      if (this.counts?.ok && before !== decision) {
        if (before) this.counts[before] -= 1
        else this.counts.read += 1
        if (decision) this.counts[decision] += 1
        else this.counts.read -= 1
        this.counts.unread = this.counts.total - this.counts.read
        this.showCounts()
      }
    }
    this.mark(this.room.detail?.id)
  }

  showCounts() {
    const c = this.counts
    if (!c?.ok) return
    fill(this.tally, h('b', {}, `${c.read} of ${c.total} read`), h('span', { class: 'rv-mark normal', title: 'normal' }, 'N'), String(c.normal),
      h('span', { class: 'rv-mark abnormal', title: 'abnormal' }, 'A'), String(c.abnormal), h('span', { class: 'rv-mark unsure', title: 'unsure' }, 'U'), String(c.unsure))
    this.bar.style.setProperty('--done', c.total ? `${(100 * c.read) / c.total}%` : '0%')
  }

  mark(id) {
    this.box.querySelector('[aria-current]')?.removeAttribute('aria-current')
    const held = this.rows.get(id)
    if (!held) return
    held.el.setAttribute('aria-current', 'true')
    held.el.scrollIntoView({ block: 'nearest' })
    this.more()
  }

  async more() {
    const { box } = this
    if (!this.cursor || this.loading || box.scrollTop + box.clientHeight < box.scrollHeight - 600) return
    this.loading = true
    const nonce = this.nonce
    const list = await get('/api/review/list', { ...this.params(), cursor: JSON.stringify(this.cursor) })
    this.loading = false
    if (nonce !== this.nonce || !list.ok) return
    this.cursor = list.cursor
    this.add(list.rows)
  }
}
