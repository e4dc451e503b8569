// One map on a canvas: the camera, the points' places at any moment between two epochs, one draw per frame.
import { Grid } from './grid.js';
import { Painter, radiusFor, shuffled } from './paint.js';
import { drawOverlay } from './overlay.js';

export class Plot {
  constructor(host, studio) {
    this.host = host;
    this.points = studio.el('canvas', { class: 'points', 'aria-hidden': 'true' });
    this.over = studio.el('canvas', { class: 'over', tabindex: '0', role: 'img', 'aria-label': 'Map of the features' });
    host.append(this.points, this.over);
    this.painter = new Painter(this.points);
    this.ink = this.over.getContext('2d');
    this.camera = { x: 0, y: 0, scale: 100 };
    this.hover = -1;
    this.focus = -1;
    this.neighbours = [];
    this.trail = null; // the lasso or box in the making, in pixels
    this.marks = true;
    this.time = 0;
    this.dirty = { points: false, over: false };
    this.frames = [];
    new ResizeObserver(() => this.resize()).observe(host);
  }

  // map: see model.js. The camera stays when the same map comes again.
  setMap(map) {
    const fresh = map.key !== this.map?.key;
    this.map = map;
    this.current = new Float32Array(map.n * 2);
    this.order = this.mixed = shuffled(map.n, map.own);
    this.selected = new Uint8Array(map.n);
    this.some = false;
    this.hover = this.focus = -1;
    this.neighbours = [];
    this.setTime(fresh ? map.epochs - 1 : Math.min(this.time, map.epochs - 1));
    if (fresh) this.fit();
  }

  // time: index into the map's epochs; a fraction lies between two.
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
    this.gridded = null;
    this.redraw();
  }

  setColours({ colours, visible, back }, colouring) {
    this.colours = colours;
    this.order = back ? Int32Array.from([...this.mixed.filter((i) => back[i]), ...this.mixed.filter((i) => !back[i])]) : this.mixed;
    this.visible = this.only ? visible.map((v, i) => v & this.only[i]) : visible;
    this.colouring = colouring;
    if (this.hover >= 0 && !this.visible[this.hover]) this.hover = -1;
    this.redraw();
  }

  setSelected(selected) {
    this.selected = selected;
    this.some = selected.some((v) => v);
    this.redraw();
  }

  get grid() {
    this.gridded ||= new Grid(this.current);
    return this.gridded;
  }

  // Screen pixels of point i, relative to the canvas (for overlays, tips and tests).
  screen(i) {
    const { scale, dx, dy } = this.view();
    return { x: this.current[2 * i] * scale + dx, y: -this.current[2 * i + 1] * scale + dy };
  }
  world(px, py) {
    const { scale, dx, dy } = this.view();
    return { x: (px - dx) / scale, y: -(py - dy) / scale };
  }
  view() {
    const { x, y, scale } = this.camera;
    return { scale, dx: this.width / 2 - x * scale, dy: this.height / 2 + y * scale };
  }
  pick(px, py, reach = 9) {
    if (!this.map || !this.visible) return -1;
    const at = this.world(px, py);
    return this.grid.nearest(at.x, at.y, reach / this.camera.scale, this.visible);
  }

  // The whole map in view, whichever epoch is shown: all epochs have a place in it.
  fit() {
    if (!this.map || !this.width) return;
    const { coords } = this.map;
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let k = 0; k < coords.length; k += 2) {
      if (coords[k] < x0) x0 = coords[k];
      if (coords[k] > x1) x1 = coords[k];
      if (coords[k + 1] < y0) y0 = coords[k + 1];
      if (coords[k + 1] > y1) y1 = coords[k + 1];
    }
    const room = 28;
    this.camera = {
      x: (x0 + x1) / 2, y: (y0 + y1) / 2,
      scale: Math.min((this.width - 2 * room) / (x1 - x0 || 1), (this.height - 2 * room) / (y1 - y0 || 1)),
    };
    this.home = this.camera.scale;
    this.redraw();
  }
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const before = this.world(px, py);
    this.camera.scale = Math.min(Math.max(this.camera.scale * factor, this.home / 4), this.home * 400);
    const after = this.world(px, py);
    this.camera.x += before.x - after.x;
    this.camera.y += before.y - after.y;
    this.redraw();
  }
  pan(dx, dy) {
    this.camera.x -= dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.redraw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width || !height) return;
    const first = !this.width;
    Object.assign(this, { width, height });
    this.painter.resize(width, height);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.over.width = width * ratio;
    this.over.height = height * ratio;
    this.ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (first) this.fit();
    else if (this.home) {
      const kept = this.camera.scale / this.home;
      const { x, y } = this.camera;
      this.fit();
      if (kept > 1.02) { Object.assign(this.camera, { x, y, scale: this.home * kept }); }
    }
    this.redraw();
  }

  redraw(points = true) {
    if (points) this.dirty.points = true;
    this.dirty.over = true;
    this.asked ||= requestAnimationFrame(() => this.draw());
  }
  draw() {
    this.asked = 0;
    if (!this.width || !this.painter.pixels) return;
    const began = performance.now();
    if (this.dirty.points) {
      const n = this.visible?.length || 0;
      const radius = radiusFor(n) * Math.min(Math.max(Math.sqrt(this.camera.scale / (this.home || 1)), 1), 2);
      this.radius = radius;
      this.painter.paint(this.visible && this.current, this.view(), {
        colours: this.colours, visible: this.visible, selected: this.some ? this.selected : null, radius,
        order: this.order, rim: n < 8000, shade: n > 20000 ? 0.8 : 1,
      });
    }
    drawOverlay(this);
    this.dirty = { points: false, over: false };
    this.frames.push(performance.now() - began);
    if (this.frames.length > 240) this.frames.shift();
  }
}
