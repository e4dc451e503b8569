// One map with its title, pointer and keys and, for several epochs, the scrubber below it.
import { batch, computed, effect, signal } from '@preact/signals';
import { finder } from '../../../static/dom.js';
import { clamp } from '../../../static/format.js';
import { button, choices, given, html, show } from '../../../static/view.js';
import { loadColumns, loadMap, titleOf } from './model.js';
import { colouring } from './palette.js';
import { Plot } from './plot.js';
import * as state from './state.js';

/** @typedef {[x: number, y: number]} Point in pixels */

/** @typedef {import('./model.js').MapData} MapData */

export class Pane {
  /** @param {HTMLElement} root @param {number} number 1 or 2 */
  constructor(root, number) {
    this.root = root;
    this.number = number;
    const nothing = /** @type {{map: MapData, columns: Map<string, Answers.Column>, fit: string | null} | null} */ (
      null
    );
    /** The map, the columns that can colour it, and the run whose scores are among them. */
    this.opened = signal(nothing);
    this.turn = 0; // counts opened maps: an answer that arrives after a newer choice is discarded
    this.frame = signal(0); // the next one, while the epochs are played
    this.time = signal(0); // where the scrubber stands: an index into the epochs
    this.epochIndex = computed(() => Math.round(this.time.value));
    this.settled = signal(0); // index of the last epoch at which the scrubber rested
    this.colouring = computed(() => colouring(this.column, new Set(state.hidden.value[this.column.name])));
    const $ = finder(root);
    const plot = new Plot($('.plot'));
    this.plot = plot;
    effect(() => {
      if (!this.map) return;
      plot.focus = this.map.find(state.selection.value.focus);
      plot.setSelected(this.map.findAll(state.selection.value.ids));
    });
    effect(() => {
      if (!this.map) return;
      const { codes = [], names = [] } = this.column;
      Object.assign(plot, { codes, names });
      plot.setColours(this.colouring.value, state.only.value && this.map.findAll(state.only.value));
    });
    effect(() => {
      plot.marks = state.marks.value;
      plot.redraw(false);
    });
    attach(this);
    show($('.title'), Pick, { pane: this });
    show($('.epochs'), Scrubber, { pane: this });
  }

  /** Null until a map is opened; `shown` lists the panes with a map. @returns {MapData} */
  get map() {
    return /** @type {any} */ (this.opened.value?.map || null);
  }
  get fit() {
    return this.opened.value?.fit || null;
  }
  /** The column that colours the points on screen. @returns {Answers.Column} */
  get column() {
    const { columns } = /** @type {any} */ (this.opened.value);
    return columns.get(state.colour.value) || columns.get('class');
  }

  blank() {
    this.stop();
    state.tip.value = null;
    this.turn += 1;
    this.opened.value = null;
    this.plot.clear();
  }

  /** @param {string} key @returns {Promise<boolean>} false if a later choice was made meanwhile */
  async open(key) {
    this.stop();
    const turn = (this.turn += 1);
    const map = await loadMap(key);
    const scored = await loadColumns(map, state.fit.value);
    if (turn !== this.turn) return false;
    this.plot.setMap(map);
    batch(() => {
      state.tip.value = null;
      this.opened.value = { map, ...scored };
      this.seek(this.plot.time);
    });
    return true;
  }

  /** Fetches the columns again, with the scores of the chosen run. */
  async refreshColumns() {
    const { map } = this;
    const scored = await loadColumns(map, state.fit.value);
    if (map === this.map) this.opened.value = { map, ...scored };
  }

  get epoch() {
    return this.map.about.epochs[this.epochIndex.value].epoch;
  }
  /** @param {number} time @param {boolean} [still] whether it will move on immediately */
  seek(time, still = false) {
    this.plot.setTime(time);
    this.time.value = time;
    if (!still) this.settled.value = this.epochIndex.value;
  }

  // One epoch takes 0.9 seconds; from the last it starts again.
  toggle() {
    if (this.frame.value) return this.stop();
    const last = this.map.epochs - 1;
    let time = this.time.value >= last ? 0 : this.time.value;
    let before = performance.now();
    const go = (/** @type {number} */ now) => {
      time = Math.min(time + (now - before) / 900, last);
      before = now;
      this.seek(time, true);
      if (time < last) this.frame.value = requestAnimationFrame(go);
      else this.stop();
    };
    this.frame.value = requestAnimationFrame(go);
  }
  stop() {
    if (!this.frame.value) return;
    cancelAnimationFrame(this.frame.value);
    this.frame.value = 0;
    this.seek(this.epochIndex.value);
  }
}

/** The choice of the map. @param {{pane: Pane}} props */
function Pick({ pane }) {
  const choose = given((key) => state.open(pane, key));
  return html`<select class="which" aria-label="Map ${pane.number}" value=${pane.map?.key} onChange=${choose}>
    ${choices(state.ready.value.map((m) => [m.key, titleOf({ ...m, count: m.points })]))}
  </select>`;
}

/** The epochs of a map that has several. @param {{pane: Pane}} props */
function Scrubber({ pane }) {
  const { map, time, frame } = pane;
  if (!map || map.epochs < 2) return null;
  const [sign, words] = frame.value ? ['\u275a\u275a', 'Pause'] : ['\u25b6', 'Play the epochs'];
  return html`<div class="scrubber">
    ${button(sign, () => pane.toggle(), { class: 'play', 'aria-label': words })}
    <input type="range" max=${map.epochs - 1} step="0.01" value=${time} aria-label="Epoch of map ${pane.number}"
      onInput=${given((at) => pane.seek(Number(at), true))}
      onChange=${given((at) => pane.seek(Math.round(Number(at))))} />
    <span class="num epoch">epoch ${pane.epoch}</span>
  </div>`;
}

/** Wheel zooms, drag pans (or draws, with the box or lasso; Shift always draws a lasso). @param {Pane} pane */
function attach(pane) {
  const { plot } = pane;
  const canvas = plot.over;
  /** @type {{tool: string, add: boolean, start: Point, x: number, y: number, moved: boolean} | null} */
  let drag = null;
  /** @param {MouseEvent} event @returns {Point} */
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hover = (/** @type {number} */ i, x = 0, y = 0) => {
    plot.setHover(i);
    state.tip.value = i < 0 ? null : { pane, i, x, y };
  };

  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!plot.map) return;
      event.preventDefault();
      plot.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event));
      state.tip.value = null;
    },
    { passive: false },
  );

  canvas.addEventListener('pointerdown', (event) => {
    if (!plot.map || event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = at(event);
    const way = event.button === 1 ? 'pan' : event.shiftKey ? 'lasso' : state.tool.value;
    drag = { tool: way, add: event.ctrlKey || event.metaKey, start: [x, y], x, y, moved: false };
    state.active.value = state.panes.indexOf(pane);
  });

  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = at(event);
    if (!drag) return hover(plot.pick(x, y), x, y);
    const [x0, y0] = drag.start;
    if (!drag.moved && Math.hypot(x - x0, y - y0) < 4) return;
    drag.moved = true;
    state.tip.value = null;
    if (drag.tool === 'pan') plot.pan(x - drag.x, y - drag.y);
    else if (drag.tool === 'box')
      plot.trail = [[x0, y0], [x, y0], [x, y], [x0, y]]; // biome-ignore format: a box
    else plot.trail = [...(plot.trail || [drag.start]), [x, y]];
    Object.assign(drag, { x, y });
    plot.redraw(drag.tool === 'pan');
  });

  const end = (/** @type {PointerEvent} */ event) => {
    if (!drag) return;
    const { moved, add, start } = drag;
    const { trail } = plot;
    drag = plot.trail = null;
    if (!moved && event.type === 'pointerup') state.click(pane, plot.pick(...start), add);
    if (trail) {
      const polygon = trail.flatMap((corner) => plot.world(...corner));
      const found = plot.inside(polygon);
      state.select(pane, add ? [...state.pointsOf(pane), ...found] : found);
    }
    plot.redraw(false);
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', () => hover(-1));

  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !plot.map) return;
    /** @type {Record<string, () => unknown>} */
    const keys = {
      ArrowLeft: () => plot.pan(60, 0),
      ArrowRight: () => plot.pan(-60, 0),
      ArrowUp: () => plot.pan(0, 60),
      ArrowDown: () => plot.pan(0, -60),
      '+': () => plot.zoom(1.3),
      '=': () => plot.zoom(1.3),
      '-': () => plot.zoom(1 / 1.3),
      0: () => plot.fit(),
      1: () => (state.tool.value = 'pan'),
      2: () => (state.tool.value = 'box'),
      3: () => (state.tool.value = 'lasso'),
      Escape: state.clear,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Describes a point's colour in words. @param {Answers.Column} column @param {number} i */
export function valueText(column, i) {
  if (column.codes) {
    const name = column.names?.[column.codes[i]] || '';
    return name === '\u2013' ? `no ${column.title.toLowerCase()}` : name;
  }
  const value = column.values?.[i];
  return value == null ? 'not scored' : value.toPrecision(4);
}

/** The tooltip at the pointer: the point's image and its class or number.
 * @param {{root: HTMLElement}} props what it must stay inside of */
export function Tip({ root }) {
  if (!state.tip.value) return null;
  const { pane, i, x, y } = state.tip.value;
  const [box, whole] = [pane.plot.host, root].map((element) => element.getBoundingClientRect());
  const left = box.left - whole.left + x;
  const top = clamp(box.top - whole.top + y - 40, 0, whole.height - 140);
  return html`<div class="tip" style="left:${left + (left + 150 > whole.width ? -126 : 18)}px;top:${top}px">
    <img src=".${pane.map.thumb(i)}" alt="" width="96" height="96" /><span>${valueText(pane.column, i)}</span>
  </div>`;
}
