// One map with its title, pointer and keys and, for several epochs, the scrubber below it.
import { action, el } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { loadColumns, loadMap } from './model.js';
import { colouring } from './palette.js';
import { Plot } from './plot.js';

/** Returns a run that can colour this map: `fit` if possible. @param {import('./model.js').MapData} map @param {string | null} fit */
const known = ({ fits }, fit) => (fits.some((f) => f.id === fit) ? fit : fits[0]?.id || null);

/** @type {any} */
const none = null;

export class Pane {
  /** @param {import('../clusters.js').ClusterView} clusters @param {number} number 0 or 1 */
  constructor(clusters, number) {
    this.clusters = clusters;
    this.number = number;
    /** @type {import('./model.js').MapData} null until one is opened; `clusters.shown` lists the panes with a map */
    this.map = none;
    /** @type {Map<string, Answers.Column>} */
    this.columns = new Map();
    /** @type {Answers.Column} the column that colours the points on screen */
    this.column = none;
    /** @type {string | null} the run whose scores are among the columns */
    this.fit = null;
    this.turn = 0; // counts opened maps: an answer that arrives after a newer choice is discarded
    this.running = 0;
    this.settled = 0; // index of the last epoch at which the scrubber rested
    const pick = () => clusters.show(this, this.pick.value);
    this.pick = el('select', { class: 'which', 'aria-label': `Map ${number + 1}`, onchange: pick });
    this.host = el('div', { class: 'plot' });
    this.slider = el('input', { type: 'range', min: 0, step: 0.01, 'aria-label': `Epoch of map ${number + 1}` });
    this.slider.oninput = () => this.seek(+this.slider.value, true);
    this.slider.onchange = () => this.seek(Math.round(+this.slider.value));
    this.play = action('\u25b6', () => this.toggle(), { class: 'play', 'aria-label': 'Play the epochs' });
    this.says = el('span', { class: 'num epoch' });
    this.scrubber = el('div', { class: 'scrubber', hidden: true }, this.play, this.slider, this.says);
    /** @type {HTMLElement} */
    this.root = dom`<div class="pane" data-pane=${number}>
      <div class="title">${this.pick}</div>${this.host}${this.scrubber}
    </div>`;
    this.plot = new Plot(this.host);
    attach(this);
  }

  blank() {
    this.stop();
    this.turn += 1;
    this.map = this.plot.map = none;
    this.plot.visible = none;
    this.plot.redraw();
  }

  /** @param {string} key @returns {Promise<boolean>} false if a later choice was made meanwhile */
  async open(key) {
    this.stop();
    const turn = (this.turn += 1);
    const map = await loadMap(key);
    const fit = known(map, this.clusters.fit);
    const columns = await loadColumns(map, fit);
    if (turn !== this.turn) return false;
    Object.assign(this, { map, columns, fit });
    this.plot.only = null;
    this.plot.setMap(map);
    this.slider.max = String(map.epochs - 1);
    this.scrubber.hidden = map.epochs < 2;
    this.pick.value = key;
    this.recolour();
    this.seek(this.plot.time);
    return true;
  }

  /** @param {string | null} fit */
  async refreshColumns(fit) {
    if (!this.map) return;
    this.fit = known(this.map, fit);
    this.columns = await loadColumns(this.map, this.fit);
    this.recolour();
  }

  // `column` is what colours the points on screen, whatever has been chosen since.
  recolour() {
    if (!this.map) return;
    const column = this.columns.get(this.clusters.colour) || this.columns.get('class');
    if (!column) return;
    const done = colouring(column, this.clusters.hidden.get(column.name) || new Set());
    this.column = column;
    Object.assign(this.plot, { codes: column.codes || [], names: column.names || [] });
    this.plot.setColours(done);
  }

  get epochIndex() {
    return Math.round(this.plot.time);
  }
  get epoch() {
    return this.map.about.epochs[this.epochIndex].epoch;
  }
  /** @param {number} time @param {boolean} [still] whether it will move on immediately */
  seek(time, still = false) {
    this.slider.value = String(time);
    this.plot.setTime(time);
    if (!still) this.settled = this.epochIndex;
    const shown = `epoch ${this.epoch}`;
    if (this.says.textContent === shown && still) return;
    this.says.textContent = shown;
    this.clusters.touch();
  }

  // One epoch takes 0.9 seconds; from the last it starts again.
  toggle() {
    if (this.running) {
      this.stop();
      return;
    }
    let time = this.plot.time >= this.map.epochs - 1 ? 0 : this.plot.time;
    let before = performance.now();
    this.play.textContent = '\u275a\u275a';
    this.play.setAttribute('aria-label', 'Pause');
    const go = (/** @type {number} */ now) => {
      time = Math.min(time + (now - before) / 900, this.map.epochs - 1);
      before = now;
      this.seek(time, time < this.map.epochs - 1);
      if (time >= this.map.epochs - 1) this.stop();
      else this.running = requestAnimationFrame(go);
    };
    this.running = requestAnimationFrame(go);
  }
  stop() {
    if (!this.running) return;
    cancelAnimationFrame(this.running);
    this.running = 0;
    this.play.textContent = '\u25b6';
    this.play.setAttribute('aria-label', 'Play the epochs');
    this.seek(Math.round(this.plot.time));
  }
}

/** @typedef {{tool: string, x: number, y: number, startX: number, startY: number, moved: boolean, add: boolean,
 *   path: number[]}} Drag */

/** Wheel zooms, drag pans (or draws, with the box or lasso; Shift always draws a lasso). @param {Pane} pane */
function attach(pane) {
  const { plot, clusters } = pane;
  const canvas = plot.over;
  /** @type {Drag | null} */
  let drag = null;
  /** @param {MouseEvent} event @returns {[number, number]} */
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!plot.map) return;
      event.preventDefault();
      plot.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event));
      clusters.tip(pane, -1);
    },
    { passive: false },
  );

  canvas.addEventListener('pointerdown', (event) => {
    if (!plot.map || event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = at(event);
    const tool = event.button === 1 ? 'pan' : event.shiftKey ? 'lasso' : clusters.tool;
    drag = { tool, x, y, startX: x, startY: y, moved: false, add: event.ctrlKey || event.metaKey, path: [x, y] };
    clusters.activate(pane);
  });

  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = at(event);
    if (!drag) {
      const i = plot.pick(x, y);
      if (i !== plot.hover) {
        plot.hover = i;
        plot.redraw(false);
      }
      clusters.tip(pane, i, x, y);
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.startX, y - drag.startY) < 4) return;
    drag.moved = true;
    clusters.tip(pane, -1);
    if (drag.tool === 'pan') plot.pan(x - drag.x, y - drag.y);
    else if (drag.tool === 'box') plot.trail = [drag.startX, drag.startY, x, drag.startY, x, y, drag.startX, y];
    else {
      const [px, py] = drag.path.slice(-2);
      if (Math.hypot(x - px, y - py) > 2) drag.path.push(x, y);
      plot.trail = drag.path;
    }
    Object.assign(drag, { x, y });
    plot.redraw(drag.tool === 'pan');
  });

  const end = (/** @type {PointerEvent} */ event) => {
    if (!drag) return;
    const done = drag;
    drag = null;
    if (!done.moved) {
      if (event.type === 'pointerup') clusters.click(pane, plot.pick(done.startX, done.startY), done.add);
    } else if (done.tool !== 'pan' && plot.trail) {
      const polygon = [];
      for (let k = 0; k < plot.trail.length; k += 2) {
        const p = plot.world(plot.trail[k], plot.trail[k + 1]);
        polygon.push(p.x, p.y);
      }
      const found = plot.grid.inside(polygon, plot.visible);
      clusters.select(pane, done.add ? [...clusters.pointsOf(pane), ...found] : found);
    }
    plot.trail = null;
    plot.redraw(false);
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', () => {
    if (plot.hover >= 0) {
      plot.hover = -1;
      plot.redraw(false);
    }
    clusters.tip(pane, -1);
  });

  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !plot.map) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => plot.pan(60, 0),
      ArrowRight: () => plot.pan(-60, 0),
      ArrowUp: () => plot.pan(0, 60),
      ArrowDown: () => plot.pan(0, -60),
      '+': () => plot.zoom(1.3),
      '=': () => plot.zoom(1.3),
      '-': () => plot.zoom(1 / 1.3),
      0: () => plot.fit(),
    };
    const act = keys[event.key] || clusters.key(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

// The tooltip at the pointer: the point's image and its class or number.
/** Describes a point's colour in words. @param {Answers.Column} column @param {number} i */
export function valueText(column, i) {
  if (column.codes) {
    const name = column.names?.[column.codes[i]] || '';
    return name === '\u2013' ? `no ${column.title.toLowerCase()}` : name;
  }
  const value = column.values?.[i];
  return value == null ? 'not scored' : value.toPrecision(4);
}

/** @param {any} tip the element: an image and a text @param {HTMLElement} root what it must stay inside of @param
 * {import('./pane.js').Pane} pane @param {number} i the point, or -1 to hide the tip @param {number} x @param {number}
 * y */
export function showTip(tip, root, pane, i, x, y) {
  tip.hidden = i < 0;
  if (i < 0) return;
  const src = pane.map.thumb(i);
  const image = tip.querySelector('img');
  if (image.getAttribute('src') !== src) image.setAttribute('src', src);
  tip.querySelector('span').textContent = valueText(pane.column, i);
  const [box, whole] = [pane.host.getBoundingClientRect(), root.getBoundingClientRect()];
  const left = box.left - whole.left + x;
  tip.style.left = `${left + (left + 150 > whole.width ? -126 : 18)}px`;
  tip.style.top = `${Math.min(Math.max(box.top - whole.top + y - 40, 0), whole.height - 140)}px`;
}
