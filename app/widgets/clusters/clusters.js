// The Clusters tab: the study's maps, its panes and tools, and the state that the panes share: the selection (by the
// identity of the points), the colours, and the panels next to the maps.
import { effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { closing, fill, finder, finderOfAll, options } from '../../static/dom.js';
import { underWay } from '../../static/plan.js';
import { show } from '../../static/view.js';
import { showDetail } from './js/detail.js';
import { MapForm, Projecting } from './js/forms.js';
import { Files, Views } from './js/menus.js';
import { titleOf } from './js/model.js';
import { Pane, showTip } from './js/pane.js';
import { Legend, Numbers } from './js/panels.js';

/** @type {Record<string, string>} */
const TOOLS = { 1: 'pan', 2: 'box', 3: 'lasso' };

const NOTHING = {
  study: ['No study yet', 'Import one in the Study tab.'],
  waiting: ['A map is being drawn', 'It opens here automatically.'],
  map: [
    'No map yet',
    'Choose an encoder and a method on the left, then draw the map. Every point is an image in feature space.',
  ],
  encoder: ['No encoder yet', 'Train an encoder in the Training tab. Its snapshots can be mapped during the training.'],
};

export class ClusterView {
  /** @param {HTMLElement} root @param {Page.Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.$ = finder(root);
    this.studio = studio;
    this.changed = signal(0); // counts changes of what the panes show: panels and buttons follow it
    this.numbers = signal('classes'); // the group of numbers shown
    this.colour = 'class'; // the column that colours the points
    /** @type {string | null} the run whose scores can colour them */
    this.fit = null;
    /** @type {Map<string, Set<string>>} column -> classes that are switched off */
    this.hidden = new Map();
    /** @type {string | null} */
    this.study = null;
    this.tool = 'pan';
    /** @type {Answers.MapRow[]} */
    this.maps = [];
    /** @type {Answers.SavedView[]} */
    this.views = [];
    /** @type {string | null} the map that was requested here and is not ready yet */
    this.wanted = null;
    this.opening = false;
    this.refusal = ''; // why nothing of the study is shown
    this.waiting = false; // a map is being drawn
    this.panes = [new Pane(this, 0), new Pane(this, 1)];
    this.active = this.panes[0];
    this.panes[1].root.hidden = true;
    const { $ } = this;
    $('.stage').append(...this.panes.map((p) => p.root));
    this.form = new MapForm($('.draw'), (key, ready) => this.asked(key, ready));
    this.projecting = new Projecting($('.place'), this);
    for (const [place, View] of Object.entries({
      legend: Legend,
      numbers: Numbers,
      'views .sheet': Views,
      'out .sheet': Files,
    }))
      show($(`.${place}`), View, { clusters: this });
    for (const name of ['views', 'out', 'place']) closing($(`.menu.${name}`));
    showDetail($('.detail'), this);
    $('.tools').onclick = (/** @type {any} */ event) =>
      event.target.dataset.tool && this.setTool(event.target.dataset.tool);
    $('.fit-view').onclick = () => this.shown.forEach((p) => p.plot.fit());
    $('.marks').onclick = () => this.toggleMarks();
    $('.split').onclick = () => this.setSplit(Boolean(this.panes[1].root.hidden));
    $('.clear').onclick = () => this.clear();
    $('.isolate').onclick = () => this.isolate();
    effect(() => this.#bar());
  }

  touch() {
    this.changed.value += 1;
  }

  /** The panes that show a map. */
  get shown() {
    return this.panes.filter((p) => !p.root.hidden && p.map);
  }
  /** The pane that the panels describe. */
  get pane() {
    return this.active.map ? this.active : this.panes[0];
  }

  // Sets the buttons above the maps; without a map, says why there is none.
  #bar() {
    this.changed.value;
    const { $, pane } = this;
    const pressed = (/** @type {HTMLElement} */ button, /** @type {boolean} */ on) =>
      button.setAttribute('aria-pressed', String(on));
    for (const button of finderOfAll(this.root)('button[data-tool]'))
      pressed(button, button.dataset.tool === this.tool);
    $('.stage').dataset.tool = this.tool;
    pressed($('.marks'), pane.plot.marks);
    pressed($('.split'), !this.panes[1].root.hidden);
    const some = this.pointsOf(pane).length > 0;
    $('.clear').disabled = !some && !pane.plot.only;
    $('.isolate').disabled = !some;
    const none = !this.panes[0].map && !this.opening;
    $('.nothing').hidden = !none;
    $('.stage').hidden = $('.bar').hidden = none;
    const kind = !this.study ? 'study' : this.waiting ? 'waiting' : this.form.runs.length ? 'map' : 'encoder';
    const [title, text] = this.refusal ? ['No map is shown', this.refusal] : NOTHING[kind];
    if (none) [$('.nothing h2').textContent, $('.nothing p').textContent] = [title, text];
  }

  // Studies and maps ---------------------------------------------------------------------------
  /** @param {string | null} study */
  async open(study) {
    this.study = study;
    this.opening = Boolean(study); // nothing is reported missing before it has been fetched
    this.refusal = '';
    for (const pane of this.panes) pane.blank();
    this.setSplit(false);
    try {
      if (study) await Promise.all([this.form.load(study), this.listMaps()]);
    } catch (error) {
      if (study === this.study) this.refusal = error.message;
    }
    if (study !== this.study) return;
    this.opening = false;
    this.touch();
  }

  // Fetches the list again: Training may have saved a first encoder meanwhile.
  async renew() {
    const { study } = this;
    if (!study || this.opening) return;
    if (this.refusal) return this.open(study);
    try {
      await this.form.load(study);
      await this.listMaps();
    } catch {
      await this.open(study); // data that the reader may no longer see are removed, with the reason
    }
  }

  async listMaps() {
    const { study } = this;
    if (!study) return;
    const { maps, views } = await api(`/api/clusters/maps?study=${encodeURIComponent(study)}`);
    if (study !== this.study) return;
    Object.assign(this, { maps, views });
    const ready = maps.filter((m) => m.ready);
    for (const pane of this.panes) {
      fill(pane.pick, options(ready.map((m) => [m.key, titleOf({ ...m, count: m.points })])));
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
    // The map requested here; else, if none is open, the first that is ready.
    const come = ready.find((m) => m.key === this.wanted) || (!this.panes[0].map && ready[0]);
    if (come) {
      if (come.key === this.wanted) this.wanted = null;
      await this.show(this.active, come.key);
    }
    this.touch();
  }
  /** @param {string} key @param {boolean} ready */
  async asked(key, ready) {
    this.wanted = key;
    await this.listMaps();
    if (ready) this.form.progress();
  }

  // Opens a map, or loads it again; the selection, made here or in the other pane, stays.
  /** @param {Pane} pane @param {string} key */
  async show(pane, key) {
    const { map, plot } = this.pane;
    const ids = this.pointsOf(this.pane).map((i) => map.ids[i]);
    const focus = map && plot.focus >= 0 ? map.ids[plot.focus] : null;
    if (!(await orToast(pane.open(key)))) return;
    pane.plot.focus = focus == null ? -1 : pane.map.find(focus);
    pane.plot.setSelected(pane.map.findAll(ids));
    this.active = pane;
    this.fit = pane.fit;
    this.touch();
  }

  // Tools -----------------------------------------------------------------------------------------
  /** @param {string} tool */
  setTool(tool) {
    this.tool = tool;
    this.touch();
  }
  toggleMarks() {
    for (const { plot } of this.panes) {
      plot.marks = !plot.marks;
      plot.redraw(false);
    }
    this.touch();
  }
  /** @param {boolean} on whether to show two maps */
  async setSplit(on) {
    const [first, second] = this.panes;
    second.root.hidden = !on;
    this.active = first;
    this.touch();
    if (!on) return second.stop();
    const ready = this.maps.filter((m) => m.ready);
    await this.show(second, (ready.find((m) => m.key !== first.map.key) || ready[0]).key);
    this.activate(first);
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
  /** @param {Pane} pane */
  activate(pane) {
    if (this.active === pane) return;
    this.active = pane;
    this.touch();
  }

  // Selection: one for both panes, by the identity of the points --------------------------------
  /** @param {Pane} pane @returns {number[]} */
  pointsOf(pane) {
    return pane.map ? Array.from(pane.plot.selected.keys()).filter((i) => pane.plot.selected[i]) : [];
  }
  /** Selects points, or looks at one of them (`focus`), in all panes. @param {Pane} pane @param {number[]} points */
  select(pane, points, focus = -1) {
    this.active = pane;
    for (const { map, plot } of this.shown) {
      const isOwn = plot === pane.plot;
      plot.focus = isOwn || focus < 0 ? focus : map.find(pane.map.ids[focus]);
      plot.neighbours = [];
      plot.setSelected(isOwn ? points : map.findAll(points.map((i) => pane.map.ids[i])));
    }
    this.touch();
  }
  /** @param {Pane} pane @param {number} i @param {boolean} add */
  click(pane, i, add) {
    if (i < 0) this.clear();
    else if (!add) this.focus(pane, i);
    else {
      const points = new Set(this.pointsOf(pane));
      if (!points.delete(i)) points.add(i);
      this.select(pane, [...points]);
    }
  }
  /** @param {Pane} pane @param {number} i */
  focus(pane, i) {
    const points = this.pointsOf(pane);
    this.select(pane, points.length > 1 ? points : [], i);
  }
  clear() {
    for (const { plot } of this.shown) plot.only = null;
    this.select(this.pane, []);
    this.recolour();
  }
  isolate() {
    for (const { plot } of this.shown) plot.only = plot.selected.slice();
    this.recolour();
  }
  /** @param {Pane} pane @param {number} i */
  flash(pane, i) {
    for (const p of this.shown) {
      p.plot.hover = i < 0 ? -1 : p === pane ? i : p.map.find(pane.map.ids[i]);
      p.plot.redraw(false);
    }
  }

  // Colours ---------------------------------------------------------------------------------------
  /** @param {string} name of a column */
  colourBy(name) {
    this.colour = name;
    this.recolour();
  }
  recolour() {
    this.shown.forEach((p) => p.recolour());
    this.touch();
  }
  /** Fetches the columns, with the scores of a run. @param {string | null} fit */
  async scoresOf(fit) {
    this.fit = fit;
    await Promise.all(this.shown.map((p) => p.refreshColumns(fit)));
    this.recolour();
  }
  /** @param {string} column @param {string} name */
  toggle(column, name) {
    const off = this.hidden.get(column) || new Set();
    if (!off.delete(name)) off.add(name);
    this.hidden.set(column, off);
    this.recolour();
  }
  /** @param {string} column @param {string} name @param {string[]} names */
  alone(column, name, names) {
    const off = this.hidden.get(column) || new Set();
    const already = names.every((n) => off.has(n) === (n !== name));
    this.hidden.set(column, already ? new Set() : new Set(names.filter((n) => n !== name)));
    this.recolour();
  }
}

/** @param {HTMLElement & { scatter?: ClusterView }} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const clusters = new ClusterView(root, studio);
  root.scatter = clusters; // for tests
  const frame = finder(root)('.scatter-room');
  const size = () => {
    const { top } = frame.getBoundingClientRect();
    if (frame.offsetParent) frame.style.height = `${Math.max(innerHeight - top - scrollY - 14, 480)}px`;
  };
  addEventListener('resize', size);
  new IntersectionObserver(size).observe(frame);
  studio.on('study', (/** @type {string | null} */ study) => clusters.open(study));
  for (const event of ['tab', 'back']) studio.on(event, () => studio.shown(root) && clusters.renew());
  studio.on('status', () => {
    const { study, refusal, opening, panes, waiting } = clusters;
    const none = study && !refusal && !panes[0].map && studio.shown(root); // a first look draws a map
    if (!opening && (waiting || none)) clusters.listMaps().catch(console.debug);
    clusters.projecting.follow().catch(console.debug);
  });
  await clusters.open(studio.study);
}
