// The cluster browser: the study's maps, its panes and tools.
import { api } from '../../../static/api.js';
import { toast } from '../../../static/dialogs.js';
import { el, finderOfAll } from '../../../static/dom.js';
import { underWay } from '../../../static/plan.js';
import { Detail } from './detail.js';
import { Gallery } from './gallery.js';
import { Legend } from './legend.js';
import { MapForm } from './map_form.js';
import { Menus } from './menus.js';
import { titleOf } from './model.js';
import { Numbers } from './numbers.js';
import { Pane, showTip } from './pane.js';
import { Projecting } from './projecting.js';
import { Selecting } from './selecting.js';

/** @type {Record<string, string>} */
const TOOLS = { v: 'pan', b: 'box', l: 'lasso' };

const NOTHING = {
  study: ['No study yet', 'Import one in the Study tab.'],
  waiting: ['A map is being drawn', 'It opens here by itself.'],
  map: [
    'No map yet',
    'Choose an encoder and a method on the left, then draw the map: every point is an image, as the encoder sees it.',
  ],
  encoder: [
    'No encoder yet',
    'Train an encoder in the Training tab. Its first snapshot can be mapped while the training goes on.',
  ],
};

export class ClusterView extends Selecting {
  /** @param {HTMLElement} root @param {import('../../../static/types').Studio} studio */
  constructor(root, studio) {
    super(root);
    this.studio = studio;
    /** @type {string | null} */
    this.study = null;
    this.tool = 'pan';
    /** @type {import('../../../static/answers').MapRow[]} */
    this.maps = [];
    /** @type {string | null} the map that was asked for here and is not there yet */
    this.wanted = null;
    this.opening = false;
    this.waiting = false; // a map is being drawn
    this.panes = [new Pane(this, 0), new Pane(this, 1)];
    this.active = this.panes[0];
    this.panes[1].root.hidden = true;
    this.$('.stage').append(...this.panes.map((p) => p.root));
    this.legend = new Legend(this.$('.legend'), this);
    this.numbers = new Numbers(this.$('.numbers'));
    this.detail = new Detail(this.$('.detail'), this);
    this.gallery = new Gallery(this.$('.detail'), this);
    this.form = new MapForm(this.$('.draw'), (key, ready) => this.asked(key, ready));
    this.menus = new Menus(root, this);
    this.projecting = new Projecting(this.$('.place'), this);
    this.$('.tools').onclick = (/** @type {any} */ event) =>
      event.target.dataset.tool && this.setTool(event.target.dataset.tool);
    this.$('.fit-view').onclick = () => this.shown.forEach((p) => p.plot.fit());
    this.$('.marks').onclick = () => this.toggleMarks();
    this.$('.split').onclick = () => this.setSplit(this.panes[1].root.hidden);
    this.$('.clear').onclick = () => this.clear();
    this.$('.isolate').onclick = () => this.isolate();
  }

  // Studies and maps ---------------------------------------------------------------------------
  /** @param {string | null} study */
  async open(study) {
    this.study = study;
    this.opening = Boolean(study); // nothing is said to be missing before it has been looked for
    for (const pane of this.panes) pane.blank();
    this.setSplit(false);
    this.active = this.panes[0];
    try {
      if (study) await Promise.all([this.form.load(study), this.listMaps()]);
      if (study !== this.study) return;
      const first = this.maps.find((m) => m.ready);
      if (first) await this.show(this.panes[0], first.key);
    } finally {
      if (study === this.study) {
        this.opening = false;
        this.emptiness();
        this.aside();
      }
    }
  }

  async listMaps() {
    const { study } = this;
    if (!study) return;
    const { maps, views } = await api(`/api/clusters/maps?study=${encodeURIComponent(study)}`);
    if (study !== this.study) return;
    this.menus.views = views;
    this.maps = maps;
    const ready = maps.filter((m) => m.ready);
    for (const pane of this.panes) {
      pane.pick.replaceChildren(
        ...ready.map((m) => el('option', { value: m.key }, titleOf({ ...m, count: m.points }))),
      );
      if (pane.map) pane.pick.value = pane.map.key;
    }
    const waiting = maps.find((m) => !m.ready && underWay(m.job_status));
    this.form.progress(waiting);
    this.waiting = Boolean(waiting);
    const failed = maps.find((m) => m.key === this.wanted && !m.ready && m.job_status === 'failed');
    if (failed) {
      this.wanted = null;
      toast(failed.message || 'The map could not be drawn.', 'bad');
    }
    // What was asked for here; else, where none is open, one that has come by itself.
    const come = ready.find((m) => m.key === this.wanted) || (!this.panes[0].map && !this.opening && ready[0]);
    if (come) {
      if (come.key === this.wanted) this.wanted = null;
      await this.show(this.active, come.key);
    }
    this.emptiness();
  }
  /** @param {string} key @param {boolean} ready */
  async asked(key, ready) {
    this.wanted = key;
    await this.listMaps();
    if (ready) this.form.progress(null);
  }

  // A map is opened; what was selected, here or in the other pane, stays selected.
  /** @param {Pane} pane @param {string} key */
  async show(pane, key) {
    const from = this.shown.find((p) => p !== pane) || this.shown[0];
    const ids = from ? this.pointsOf(from).map((i) => from.map.ids[i]) : [];
    const focus = from && from.plot.focus >= 0 ? from.map.ids[from.plot.focus] : null;
    try {
      if (!(await pane.open(key))) return;
    } catch (error) {
      toast(error.message, 'bad');
      return;
    }
    const selected = new Uint8Array(pane.map.n);
    for (const i of ids.map((id) => pane.map.find(id))) if (i >= 0) selected[i] = 1;
    pane.plot.focus = focus == null ? -1 : pane.map.find(focus);
    pane.plot.setSelected(selected);
    this.active = pane;
    this.fit = pane.fit;
    this.emptiness();
    this.aside();
  }
  // The same map once more, after something was placed on it or taken off: camera, epoch and selection stay.
  /** @param {Pane} pane */
  async again(pane) {
    const { time } = pane.plot;
    const selected = this.pointsOf(pane).map((i) => pane.map.ids[i]);
    if (!(await pane.open(pane.map.key))) return;
    const found = new Uint8Array(pane.map.n);
    for (const i of selected.map((id) => pane.map.find(id))) if (i >= 0) found[i] = 1;
    pane.plot.setSelected(found);
    pane.seek(time);
    if (pane === this.active) this.aside();
  }
  emptiness() {
    const none = !this.panes[0].map && !this.opening;
    this.$('.nothing').hidden = !none;
    this.$('.stage').hidden = none;
    this.$('.bar').hidden = none;
    if (!none) return;
    const ready = this.form.runs.length;
    const kind = !this.study ? 'study' : this.waiting ? 'waiting' : ready ? 'map' : 'encoder';
    [this.$('.nothing h2').textContent, this.$('.nothing p').textContent] = NOTHING[kind];
  }

  // Tools -----------------------------------------------------------------------------------------
  /** @param {string} tool */
  setTool(tool) {
    this.tool = tool;
    for (const b of finderOfAll(this.root)('[data-tool]'))
      b.setAttribute('aria-pressed', String(b.dataset.tool === tool));
    this.$('.stage').dataset.tool = tool;
  }
  toggleMarks() {
    const on = this.$('.marks').getAttribute('aria-pressed') !== 'true';
    this.$('.marks').setAttribute('aria-pressed', String(on));
    this.panes.forEach((p) => {
      p.plot.marks = on;
      p.plot.redraw(false);
    });
  }
  /** @param {boolean} on whether two maps are shown */
  setSplit(on) {
    this.panes[1].root.hidden = !on;
    this.$('.split').setAttribute('aria-pressed', String(on));
    if (!on) {
      this.panes[1].stop();
      this.active = this.panes[0];
    } else if (this.panes[0].map) {
      const ready = this.maps.filter((m) => m.ready);
      const other = ready.find((m) => m.key !== this.panes[0].map.key) || ready[0];
      return this.show(this.panes[1], other.key).then(() => {
        this.active = this.panes[0];
        this.aside();
      });
    }
  }
  /** @param {string} key */
  key(key) {
    if (key === 'Escape') return () => this.clear();
    return TOOLS[key] ? () => this.setTool(TOOLS[key]) : null;
  }
  /** @param {Pane} pane @param {number} i @param {number} [x] @param {number} [y] */
  tip(pane, i, x = 0, y = 0) {
    showTip(this.$('.tip'), this.root, pane, i, x, y);
  }
}
