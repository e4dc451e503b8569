// One map on a canvas: the camera, the points' positions at any moment between two epochs, one draw per frame.
// Written by hand because it was measured to be faster: 5,000 points in about 1 ms on a plain CPU, whereas Gradio's
// plots give no selection and redraw on the server. `python launch.py bench clusters` measures it.
import { el } from '../../../static/dom.js';
import { clamp } from '../../../static/format.js';
import { bounds, inside, nearest } from './find.js';
import { drawOverlay } from './overlay.js';
import { Painter, radiusFor, shuffled } from './paint.js';

export class Plot {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.points = el('canvas', { class: 'points', 'aria-hidden': 'true' });
    this.over = el('canvas', { class: 'over', tabindex: '0', role: 'img', 'aria-label': 'Map of the features' });
    host.append(this.points, this.over);
    this.painter = new Painter(this.points);
    this.ink = /** @type {CanvasRenderingContext2D} */ (this.over.getContext('2d'));
    this.camera = { x: 0, y: 0, scale: 100 };
    this.hover = -1;
    this.focus = -1;
    /** @type {number[]} points with a ring */
    this.neighbours = [];
    /** @type {import('./pane.js').Point[] | null} the lasso or box being drawn */
    this.trail = null;
    this.marks = true;
    this.time = 0;
    this.dirty = { points: false }; // the overlay is drawn in every frame
    this.width = 0; // CSS pixels
    this.height = 0;
    this.home = 0; // the scale at which the whole map is visible
    this.asked = 0;
    this.radius = 3;
    /** @type {import('./model.js').MapData} null until one is put in place */
    this.map = /** @type {any} */ (null);
    this.current = new Float32Array(0); // x, y of each point at `time`
    this.order = new Int32Array(0); // drawing order of the points
    this.mixed = this.order;
    /** @type {Uint8Array} */
    this.selected = new Uint8Array(0);
    /** @type {Uint32Array} */
    this.colours = new Uint32Array(0);
    /** @type {Uint8Array} null while nothing is drawn */
    this.visible = /** @type {any} */ (null);
    /** @type {import('./palette.js').Colouring | null} */
    this.colouring = null;
    /** @type {number[]} class of each point, if they are coloured by class */
    this.codes = [];
    /** @type {string[]} */
    this.names = [];
    new ResizeObserver(() => this.resize()).observe(host);
  }

  /** Shows nothing. */
  clear() {
    this.map = this.visible = /** @type {any} */ (null);
    this.order = new Int32Array(0);
    this.redraw();
  }

  /** Sets the map; the camera stays if it is the same map. @param {import('./model.js').MapData} map */
  setMap(map) {
    const fresh = map.key !== this.map?.key;
    this.map = map;
    this.current = new Float32Array(map.n * 2);
    this.order = this.mixed = shuffled(map.n, map.own);
    this.hover = -1;
    this.setTime(fresh ? map.epochs - 1 : Math.min(this.time, map.epochs - 1));
    if (fresh) this.fit();
  }

  /** @param {number} time index into the map's epochs; a fraction lies between two */
  setTime(time) {
    this.time = time;
    const { coords, n } = this.map;
    const first = Math.floor(time);
    const part = time - first;
    const a = coords.subarray(first * n * 2, (first + 1) * n * 2);
    if (part === 0) this.current.set(a);
    else {
      const b = coords.subarray((first + 1) * n * 2, (first + 2) * n * 2);
      const ease = part * part * (3 - 2 * part);
      for (let i = 0; i < a.length; i += 1) this.current[i] = a[i] + (b[i] - a[i]) * ease;
    }
    this.redraw();
  }

  /** @param {import('./palette.js').Colouring} colouring @param {number[] | null} [only] the points shown in isolation */
  setColours(colouring, only) {
    const { colours, visible, back } = colouring;
    this.colours = colours;
    this.order = back
      ? Int32Array.from([...this.mixed.filter((i) => back[i]), ...this.mixed.filter((i) => !back[i])])
      : this.mixed;
    this.visible = visible;
    if (only) {
      this.visible = new Uint8Array(visible.length);
      for (const i of only) this.visible[i] = visible[i];
    }
    this.colouring = colouring;
    if (this.hover >= 0 && !this.visible[this.hover]) this.hover = -1;
    this.redraw();
  }

  /** @param {number[]} points */
  setSelected(points) {
    this.selected = new Uint8Array(this.map.n);
    for (const i of points) this.selected[i] = 1;
    this.redraw();
  }

  /** @param {number} i the point under the pointer, or -1 */
  setHover(i) {
    if (i === this.hover) return;
    this.hover = i;
    this.redraw(false);
  }

  /** Returns a point's screen pixels, relative to the canvas. @param {number} i */
  screen(i) {
    const { scale, dx, dy } = this.view();
    return { x: this.current[2 * i] * scale + dx, y: -this.current[2 * i + 1] * scale + dy };
  }
  /** Converts pixels to map units. @param {number} px @param {number} py @returns {[x: number, y: number]} */
  world(px, py) {
    const { scale, dx, dy } = this.view();
    return [(px - dx) / scale, -(py - dy) / scale];
  }
  view() {
    const { x, y, scale } = this.camera;
    return { scale, dx: this.width / 2 - x * scale, dy: this.height / 2 + y * scale };
  }
  /** Returns the point under the pointer, or -1. @param {number} px @param {number} py */
  pick(px, py, reach = 9) {
    if (!this.map || !this.visible) return -1;
    return nearest(this.current, this.visible, ...this.world(px, py), reach / this.camera.scale);
  }
  /** Returns the visible points inside a polygon. @param {number[]} polygon x, y, x, y, ... in map units */
  inside(polygon) {
    return inside(this.current, this.visible, polygon);
  }

  // Shows the whole map: the view contains all epochs.
  fit() {
    if (!this.map || !this.width) return;
    const { x0, y0, x1, y1 } = bounds(this.map.coords);
    const margin = 28;
    this.camera = {
      x: (x0 + x1) / 2,
      y: (y0 + y1) / 2,
      scale: Math.min((this.width - 2 * margin) / (x1 - x0 || 1), (this.height - 2 * margin) / (y1 - y0 || 1)),
    };
    this.home = this.camera.scale;
    this.redraw();
  }
  /** @param {number} factor */
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.world(px, py);
    this.camera.scale = clamp(this.camera.scale * factor, this.home / 4, this.home * 400);
    const [u, v] = this.world(px, py);
    this.camera.x += x - u;
    this.camera.y += y - v;
    this.redraw();
  }
  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.camera.x -= dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.redraw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width || !height) return;
    Object.assign(this, { width, height });
    this.painter.resize(width, height);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.over.width = width * ratio;
    this.over.height = height * ratio;
    this.ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { x, y, scale } = this.camera;
    const kept = this.home ? scale / this.home : 1; // what is enlarged stays enlarged
    this.fit();
    if (kept > 1.02) Object.assign(this.camera, { x, y, scale: this.home * kept });
    this.redraw();
  }

  redraw(points = true) {
    if (points) this.dirty.points = true;
    this.asked ||= requestAnimationFrame(() => this.draw());
  }
  draw() {
    this.asked = 0;
    if (!this.width || !this.painter.pixels.length) return;
    if (this.dirty.points) {
      const n = this.visible?.length || 0;
      const radius = radiusFor(n) * clamp(Math.sqrt(this.camera.scale / (this.home || 1)), 1, 2);
      this.radius = radius;
      const { colours, visible, order } = this;
      const selected = this.selected.includes(1) ? this.selected : null;
      const points = { colours, visible, selected, radius, order, rim: n < 8000 };
      this.painter.paint(this.current, this.view(), points, n > 20000 ? 0.8 : 1);
    }
    drawOverlay(this);
    this.dirty.points = false;
  }
}
