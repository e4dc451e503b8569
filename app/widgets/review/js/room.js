// The room: what is on screen, and how it changes. Reading, drawing and layout live in files of their own.

import { get, post } from './api.js'
import { View } from './view.js'
import { Editor } from './editor.js'
import { Worklist } from './list.js'
import { LAYOUTS, paint } from './paint.js'
import { STEPS, stepOf } from './heat.js'
import * as layers from './layers.js'
import * as measure from './measure.js'
import { controls, detectors, numbers, reflect } from './controls.js'

export const SHOW = {
  layout: 'one', heat: true, contour: true, opacity: 0.5, colours: 'inferno', mask: 'outline', inside: true, invert: false, window: null, nearest: false,
}

export class Room {
  constructor(studio) {
    this.studio = studio
    this.study = null
    this.run = null
    this.show = { ...SHOW }
    this.step = null // of the threshold slider; null: the run's own threshold
    this.panes = []
    this.view = new View(() => this.draw())
    this.editor = new Editor(() => this.redraw())
    this.list = new Worklist(this)
    this.side = controls(this)
  }

  say(text, kind = 'note') {
    this.studio.toast(text, kind)
  }

  draw() {
    if (this.due) return
    this.due = requestAnimationFrame(() => {
      this.due = null
      paint(this)
      this.painted?.(this)
    })
  }

  redraw() {
    reflect(this.side, this)
    this.draw()
  }

  // ---- a study
  async open(study, wanted = null) {
    if (!study) return
    this.study = study
    const setup = await get('/api/review/open', { study })
    if (this.study !== study) return
    if (!setup.ok) return this.say(setup.error, 'bad')
    this.setup = setup
    Object.assign(this.show, setup.show, { window: null, invert: false, nearest: false })
    this.run = setup.runs[0]?.id || null
    this.side.mask.freshLabels()
    detectors(this.side, this)
    this.opened?.()
    await this.list.load()
    const first = wanted ? await get(`/api/review/case/${wanted}`, this.list.params()) : await get('/api/review/step', this.list.params())
    if (first.ok && first.case) await this.enter(first.case, first.ahead)
    else this.empty()
  }

  empty() {
    this.detail = this.picture = this.heat = this.lesion = null
    this.named?.()
    this.redraw()
  }

  // ---- a case. Everything is fetched before anything changes, so that nothing jumps.
  async enter(detail, ahead = []) {
    const nonce = (this.nonce = Symbol('case'))
    let picture = null
    try {
      picture = await layers.pictures.get(`${detail.id}/${detail.v}`, detail)
    } catch (error) {
      this.say(error.message, 'bad')
    }
    const mask = detail.masks?.[0] || null
    const read = detail.readings?.[this.run]?.has_map
    const [roi, heat, lesion, second] = await Promise.all([
      read && picture ? layers.rois.get(`${detail.id}/${detail.v}`, detail.id, detail.v) : null,
      read ? layers.heats.get(`${detail.id}/${this.run}`, detail.id, this.run) : null,
      mask ? layers.masks.get(`${detail.id}/${mask.id}`, detail.id, mask.id) : null,
      this.show.layout === 'compare' ? this.secondHeat(detail) : null,
    ])
    if (nonce !== this.nonce) return
    const same = this.detail?.id === detail.id
    if (!same) this.editor.close()
    if (!same) this.editor.tool = null
    Object.assign(this, { detail, picture, lesion, maskId: mask?.id || null, otherId: null, other: null, roi })
    if (!same) this.nearest = null
    this.dress({ heat, second })
    if (picture) this.view.setImage(picture.w, picture.h)
    this.since = performance.now()
    this.windowControls()
    this.settle()
    this.named?.()
    this.entered?.()
    this.list.mark(detail.id)
    this.redraw()
    await new Promise((done) => requestAnimationFrame(done))
    this.shownAt = performance.now()
    this.prefetch(ahead)
    this.fetchNearest()
  }

  // The next cases are fetched in the order they come, and made ready while the reader looks at this one. What a blind
  // reader may not see yet the server leaves out.
  prefetch(ahead) {
    const { run, show } = this
    for (const next of ahead) {
      const coming = layers.ahead(next.id, next.v, run)
      if (!coming) continue
      coming.then(({ picture, heat, roi, lesion, mask }) => {
        if (!heat) return
        const ready = () => {
          if (this.run !== run) return
          const made = layers.layer(heat, picture, show.colours, show.inside ? roi : null)
          layers.cutAt(made, this.step)
          this.counted(made, lesion, mask, picture)
        }
        window.requestIdleCallback ? requestIdleCallback(ready, { timeout: 1000 }) : setTimeout(ready)
      }, () => null)
    }
  }

  // The heat maps as they are to be shown: in these colours, everywhere or in the region of interest alone.
  dress({ heat = this.raw?.heat, second = this.raw?.second } = {}) {
    this.raw = { heat, second }
    const made = (map) => (map && this.picture ? layers.layer(map, this.picture, this.show.colours, this.show.inside ? this.roi : null) : null)
    this.heat = made(heat)
    this.second = made(second)
    if (this.second) layers.cutAt(this.second, this.step)
  }

  setInside(inside) {
    this.set({ inside })
    this.dress()
    this.settle()
    this.redraw()
  }

  setNearest(nearest) {
    if (this.detail?.blind) return this.say('Decide first; then the nearest normal image is shown.')
    this.show.nearest = nearest
    this.arrange?.()
    this.redraw()
    return this.fetchNearest()
  }

  // The normal training image that lies nearest to the case, as the run's encoder sees it.
  async fetchNearest() {
    const { detail, run } = this
    if (!this.show.nearest || !detail || detail.blind || !run || this.nearest?.of === `${detail.id}/${run}`) return
    this.nearest = null
    const stale = () => this.detail?.id !== detail.id || this.run !== run
    const found = await get(`/api/case/${detail.id}/nearest`, { run })
    if (stale()) return
    const [first] = found.cases || []
    if (!found.ok || !first) return this.say(found.error || 'The study has no normal training images.')
    const picture = await layers.pictures.get(`${first.id}/${first.v}`, first).catch(() => null)
    if (stale() || !picture) return
    this.nearest = { ...first, of: `${detail.id}/${run}`, picture }
    this.named?.()
    this.draw()
  }

  async secondHeat(detail) {
    const other = this.setup.runs.find((r) => r.first && r.id !== this.run && detail.readings?.[r.id]?.has_map)
    return other ? layers.heats.get(`${detail.id}/${other.id}`, detail.id, other.id) : null
  }

  // The threshold's step, the contour, the measures: after a new heat map or a new mask.
  settle() {
    const { heat } = this
    const blind = Boolean(this.detail?.blind)
    this.side.ai.hidden = blind
    this.side.veil.hidden = !blind
    this.side.scale.set(this.detail?.readings?.[this.run])
    this.counts = null
    if (!heat) {
      numbers(this.side, { at: null, components: null })
      this.side.threshold.range.disabled = true
      return
    }
    this.side.threshold.range.disabled = false
    const known = heat.counted?.mask === this.maskId
    if (known) this.counts = heat.counted.counts
    this.applyStep()
    if (!known) requestAnimationFrame(() => setTimeout(() => this.count())) // the picture first
  }

  async count() {
    const { heat, lesion, maskId, picture } = this
    if (!heat) return
    const stale = () => this.heat !== heat || this.lesion !== lesion
    const counts = await this.counted(heat, lesion, maskId, picture, stale)
    if (!counts || stale()) return
    this.counts = counts
    this.measured()
  }

  async counted(made, lesion, mask, picture, stale) {
    const counts = await measure.count(made.map, lesion?.pixels, picture.w, picture.h, made.roi, stale)
    if (counts) made.counted = { mask, counts }
    return counts
  }

  current() {
    return this.step ?? (this.heat ? stepOf(this.heat.map, this.heat.map.scale.pixel) : 500)
  }

  applyStep() {
    const step = this.current()
    this.side.threshold.set(step)
    layers.cutAt(this.heat, step)
    if (this.second) layers.cutAt(this.second, step)
    this.measured()
  }

  measured() {
    numbers(this.side, {
      at: this.counts && measure.at(this.counts, this.current()),
      components: this.heat?.components, pixels: this.picture && this.picture.w * this.picture.h,
    })
  }

  setStep(step) {
    if (!this.heat) return
    const from = this.told ?? this.current() / STEPS
    this.step = Math.min(Math.max(step, 0), STEPS)
    this.applyStep()
    this.draw()
    clearTimeout(this.telling)
    const said = { case: this.detail.id, run: this.run, from, to: this.step / STEPS }
    const tell = () => {
      if (this.side.threshold.range.matches(':active')) { // held: where it is let go is what counts
        this.telling = setTimeout(tell, 500)
        return
      }
      this.told = said.to
      post('/api/review/threshold', said)
    }
    this.telling = setTimeout(tell, 1500)
  }

  // ---- what is shown of it
  set(values) {
    Object.assign(this.show, values)
    if ('colours' in values) [this.heat, this.second].forEach((made) => layers.recolour(made, values.colours))
    this.redraw()
    clearTimeout(this.saving)
    this.saving = setTimeout(() => {
      const { window: _, invert: __, nearest: ___, ...keep } = this.show
      post('/api/review/settings', { show: keep })
    }, 2000)
  }

  setWindow(change) {
    const window = { ...(this.show.window || this.picture?.full || { centre: 127.5, width: 255 }), ...change }
    window.width = Math.max(window.width, 1)
    this.show.window = window
    this.side.level.set(window.centre)
    this.side.width.set(window.width)
    this.draw()
  }

  windowControls() {
    const { picture } = this
    const full = picture?.full || { centre: 127.5, width: 255 }
    const top = picture?.top || 255
    this.side.level.range.max = top
    this.side.width.range.max = top
    if (this.windowTop !== top) this.show.window = null
    this.windowTop = top
    const now = this.show.window || full
    this.side.level.set(now.centre)
    this.side.width.set(now.width)
    this.presets?.()
  }

  async setLayout(layout) {
    if (!LAYOUTS[layout]) return
    this.set({ layout })
    this.arrange?.()
    if (layout === 'compare' && this.detail && !this.detail.blind) {
      this.dress({ second: await this.secondHeat(this.detail) })
      this.named?.()
      this.draw()
    }
  }

  async useRun(id) {
    this.run = id
    this.step = null
    detectors(this.side, this)
    await this.list.load()
    if (!this.detail) return
    const again = await get(`/api/review/case/${this.detail.id}`, this.list.params())
    if (again.ok) await this.enter(again.case)
  }
}
