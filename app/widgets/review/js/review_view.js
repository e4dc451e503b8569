// What is on screen in Review: the study, the case, its layers. Other files of this folder change them:
// cases.js (from case to case), threshold.js, display.js, decisions.js and drawing.js.
import { effect, signal } from '@preact/signals';
import { enqueue, get } from '../../../static/api.js';
import { toast } from '../../../static/dialogs.js';
import { finder } from '../../../static/dom.js';
import { reading, shownCase } from '../../../static/store.js';
import { show } from '../../../static/view.js';
import { CaseLoader } from './cases.js';
import { controls } from './controls.js';
import { Detectors } from './detector_choice.js';
import { Display } from './display.js';
import { Drafts } from './drafts.js';
import { Editor } from './editor.js';
import { Grid } from './grid.js';
import { History } from './history.js';
import { Worklist } from './list.js';
import { Overview } from './overview.js';
import { paint } from './paint.js';
import { sendKept } from './stored.js';
import { Threshold } from './threshold.js';
import { Place, Ruler } from './tools.js';
import { View } from './view.js';

/** @typedef {{kind: string, canvas: HTMLCanvasElement, context: CanvasRenderingContext2D, caption: HTMLElement}} Pane */

/** The reader's display settings. */
export const SHOW = {
  layout: 'one',
  heat: false,
  contour: true, // on flagged images; others are outlined on request
  opacity: 0.5,
  colours: 'inferno',
  mask: /** @type {'outline' | 'fill' | 'off'} */ ('outline'),
  inside: true,
  invert: false,
  window: /** @type {import('./image.js').Window | null} */ (null),
  nearest: false,
  display: false, // whether its controls are unfolded
  keepWindow: false,
  truth: false, // whether data that give the label away are shown at once
  listing: /** @type {'list' | 'grid'} */ ('list'),
  about: false,
};

/** The case on screen and its layers; at first there is none. */
class OnScreen {
  detail = /** @type {Answers.CaseDetail | null} */ (null);
  picture = /** @type {import('./image.js').Picture | null} */ (null);
  heat = /** @type {import('./layers.js').Layer | null} */ (null);
  second = /** @type {import('./layers.js').Layer | null} */ (null); // of another detector, for comparison
  roi = /** @type {import('./layers.js').Region | null} */ (null);
  lesion = /** @type {import('./layers.js').MaskLayer | null} */ (null);
  maskId = /** @type {number | null} */ (null); // version of the lesion mask on screen
  other = /** @type {import('./layers.js').MaskLayer | null} */ (null); // another version, compared with the first
  otherId = /** @type {number | null} */ (null);
  waits = false; // whether the imported mask is withheld
  nearest = /** @type {{id: number, name: string, of: string, picture: import('./image.js').Picture} | null} */ (null);
  counts = /** @type {import('./threshold.js').PixelCounts | null} */ (null);
  coming = false; // while a study's list and first case are loading
}

export class ReviewView extends OnScreen {
  /** @param {HTMLElement} root with the frame of review.html @param {Page.Studio} studio */
  constructor(root, studio) {
    super();
    this.root = root;
    const find = finder(root);
    /** @type {Record<string, any>} */
    const held = {};
    /** An element of the frame, looked for once: it stays. @param {string} selector */
    this.$ = (selector) => (held[selector] ??= find(selector));
    this.studio = studio;
    this.study = /** @type {string | null} */ (null);
    this.run = /** @type {string | null} */ (null);
    this.setup = /** @type {Answers.ReviewSetup | null} */ (null);
    this.show = { ...SHOW };
    this.visit = Symbol('visit'); // different for each study and session

    this.since = 0; // when the case appeared, for the time of a decision
    this.shownAt = 0; // when its first frame was painted, for the bench
    /** The last decision and when its key was pressed. @type {{case: number, decision: Answers.Decision, at: number} | null} */
    this.last = null;
    /** @type {Set<number>} cases whose imported mask and name were requested before a decision */
    this.revealed = new Set();
    this.asked = /** @type {number | null} */ (null); // the case whose outline was requested, though it is not flagged
    this.adjudicating = false;
    this.beside = /** @type {string | null} */ (null); // the run to compare with, if requested

    /** @type {Pane[]} */
    this.panes = [];
    this.view = new View(() => this.draw());
    this.editor = new Editor(() => this.redraw());
    this.ruler = new Ruler(this);
    this.place = new Place(this);
    this.overview = new Overview(this);
    this.grid = new Grid(this);
    this.list = new Worklist(this);
    this.history = new History(this);
    this.drafts = new Drafts(this);
    this.cases = new CaseLoader(this);
    this.threshold = new Threshold(this);
    this.display = new Display(this);
    this.marked = () => {}; // there may be more material to learn from; set by learn.js
    /** @type {(review: ReviewView) => void} after each frame; set by frame.js */
    this.painted = () => {};
    this.frameDue = 0;
    this.flashing = 0;
    this.changes = signal(0); // counts the changes of what is on screen
    show(this.$('.rv-detectors'), Detectors, { review: this });
    controls(this);
  }

  /** Draws a part of the page, now and after every change of what is on screen. @param {() => void} draw */
  shows(draw) {
    effect(() => {
      this.changes.value;
      draw();
    });
  }

  /** Sets parts of what is on screen, or functions of other files that the view calls. @param {Partial<ReviewView>} parts */
  put(parts) {
    Object.assign(this, parts);
  }

  /** Applies the studio's answer to a change of a case, if it is still on screen. Resolves to the answer; to null after
   * a message if the change was refused. @template A @param {number} id @param {Promise<Page.Answer<A>>} asked */
  async changed(id, asked) {
    const answer = await asked;
    if (!answer.ok) {
      this.say(answer.error, 'bad');
      return null;
    }
    const parts = Object.entries(answer).filter(([name]) => ['masks', 'findings', 'marks'].includes(name));
    if (this.detail?.id === id) Object.assign(this.detail, Object.fromEntries(parts));
    this.redraw();
    return answer;
  }

  /** Returns the active one of the tools that are dragged over the image. */
  get dragged() {
    return [this.ruler, this.place].find((tool) => tool.active);
  }

  /** Activates a tool that is dragged over the image, in place of any other tool, or deactivates it.
   * @param {Ruler | Place} tool */
  drag(tool) {
    if (!this.picture) return;
    if (!tool.active) this.dragged?.toggle();
    this.editor.tool = null;
    tool.toggle();
    this.redraw();
  }

  /** Whether a layer's outline is drawn: on flagged images; on others if the reader requests it or moves the threshold.
   * @param {import('./layers.js').Layer | null} layer */
  outlines(layer) {
    const { show, detail, asked, threshold } = this;
    const flagged = detail?.readings?.[layer?.run || '']?.flagged;
    return show.contour && Boolean(flagged || threshold.step !== null || (detail && asked === detail.id));
  }

  /** Handles the outline key: on and off; on an image that is not flagged, only for this image. */
  toggleOutline() {
    const { show, detail, heat } = this;
    const own = this.asked === detail?.id; // requested, only on this image
    if (show.contour && (own || !this.outlines(heat))) this.ask(!own);
    else this.display.set({ contour: !show.contour });
  }

  /** Outlines the case on screen, flagged or not. @param {boolean} on */
  ask(on) {
    this.asked = on ? (this.detail?.id ?? null) : null;
    this.redraw();
  }

  /** @param {string} text @param {'note' | 'good' | 'bad'} [kind] */
  say(text, kind = 'note') {
    toast(text, kind);
  }

  draw() {
    this.frameDue ||= requestAnimationFrame(() => {
      this.frameDue = 0;
      paint(this);
      this.painted(this);
    });
  }

  /** Shows a change of what is on screen, everywhere. */
  redraw() {
    this.changes.value += 1;
    this.draw();
  }

  /** Shows a note over the image for a moment; an empty one ends it. @param {string} text @param {string} kind @param {number} [ms] */
  flash(text, kind, ms = 900) {
    const note = this.$('.rv-flash');
    if (text) note.textContent = text; // an empty note fades with its text
    note.className = text ? `rv-flash on ${kind}` : 'rv-flash';
    clearTimeout(this.flashing);
    this.flashing = window.setTimeout(() => (note.className = 'rv-flash'), ms);
  }

  /** Returns the comment that the reader has typed. @returns {string} */
  comment() {
    return this.$('.rv-comment').value.trim();
  }

  /** Returns the reader's rating from 0 to 100, if a trial requires one and its slider was moved. */
  rating() {
    const rated = this.$('.rv-rating output').textContent;
    return this.$('.rv-rating').hidden || rated === '–' ? undefined : Number(rated);
  }

  /** @param {string} study @param {number | null} [wanted] the first case */
  async open(study, wanted = null) {
    if (this.study !== study) this.leave();
    this.study = study;
    this.coming = true;
    this.redraw();
    const setup = await get('/api/review/open', { study });
    if (this.study !== study) return;
    if (!setup.ok) {
      this.study = null; // the reader may get access later, when a trial's list is opened
      return this.list.refuse(setup.error);
    }
    this.setup = setup;
    Object.assign(this.show, setup.show, { window: null, invert: false, nearest: false });
    const asked = setup.runs.find((/** @type {{id: string}} */ r) => r.id === reading.peek());
    this.run = (asked || setup.runs[0])?.id || null;
    if (!asked) reading.value = null; // an address may name a run of another study
    this.redraw();
    sendKept(this);
    this.marked();
    await this.drafts.load();
    if (this.study !== study) return;
    await this.list.load();
    if (this.study !== study) return;
    const params = this.list.params();
    const named = wanted ? await get(`/api/review/case/${wanted}`, params) : null;
    // An address may name a case of another study or a removed one: then the list starts at its beginning.
    const there = named?.ok && named.case.study === study;
    const first = there ? named : await get('/api/review/step', params);
    if (this.study !== study) return;
    if (first.ok && first.case) await this.cases.enter(first.case, first.ahead);
    else this.empty();
  }

  empty() {
    this.editor.close();
    this.editor.tool = null;
    this.put(new OnScreen());
    if (this.study) shownCase.value = null;
    this.redraw();
  }

  /** Clears the previous study at once: its image must never appear with another study's list. */
  leave() {
    this.study = this.setup = this.run = null;
    this.visit = Symbol('visit');
    this.last = null;
    this.adjudicating = false;
    this.revealed.clear();
    this.threshold.step = null;
    this.drafts.cases = new Set(); // unsent drafts of the study are still sent
    this.history.forget();
    this.cases.newest = null;
    this.empty();
    this.list.clear();
    this.overview.clear();
    this.grid.clear();
    paint(this);
  }

  /** Queues the action of a key or click; it is skipped if another study, or a session's list, was opened before its
   * turn. @template T @param {() => Promise<T>} work @param {() => void} [otherwise] */
  enqueue(work, otherwise) {
    const { visit } = this;
    return enqueue(async () => (this.visit === visit ? work() : otherwise?.()));
  }

  /** Goes to a case, after all earlier actions. @param {number} id */
  goTo(id) {
    return this.enqueue(() => this.cases.fetch(id));
  }

  /** Switches to another run after all earlier actions: a decision being stored belongs to the previous run, and no
   * earlier answer arrives after the switch. @param {string | (() => string)} which */
  useRun(which) {
    const { study } = this;
    return this.enqueue(async () => {
      const id = typeof which === 'string' ? which : which();
      this.run = id;
      reading.value = id;
      this.threshold.step = null;
      await this.list.load();
      if (this.detail && this.study === study) await this.cases.fetch(this.detail.id);
    });
  }
}
