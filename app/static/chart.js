// A line chart on a canvas: few lines, many points, crosshair with values. No library.
const { el } = window.Studio;
export const COLOURS = ['#7cc4d4', '#e6bd6a', '#f0917f', '#86c99f', '#c3a6f0', '#9db4c9', '#f2a7cf', '#d6d36a'];

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}
const said = (v) => {
  if (v == null) return '–';
  const a = Math.abs(v);
  if (a && (a < 0.001 || a >= 1e5)) return v.toExponential(1);
  return String(Number(v.toPrecision(a >= 100 ? 4 : 3)));
};

export class Chart {
  // options: {title, unit, low, high (limits of y if fixed), lines: [{at, label}] (level lines), log}
  constructor(options = {}) {
    this.options = options;
    this.series = [];
    this.canvas = el('canvas', { role: 'img', 'aria-label': options.title });
    this.legend = el('div', { class: 'legend' });
    this.element = el('figure', { class: 'chart' }, el('figcaption', {}, el('b', {}, options.title), this.legend), el('div', { class: 'plot' }, this.canvas));
    this.canvas.onmousemove = (event) => { this.at = event.offsetX; this.draw(); };
    this.canvas.onmouseleave = () => { this.at = null; this.draw(); };
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }

  // series: [{name, points: [[x, y], ...], colour, dash}]
  put(series) {
    this.series = series.filter((s) => s.points.length);
    this.series.forEach((s, i) => { s.colour ||= COLOURS[i % COLOURS.length]; });
    this.draw();
  }

  draw() {
    const box = this.canvas.parentElement;
    const w = box.clientWidth;
    const h = box.clientHeight;
    if (!w || !h) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== w * ratio || this.canvas.height !== h * ratio) {
      Object.assign(this.canvas, { width: w * ratio, height: h * ratio });
      Object.assign(this.canvas.style, { width: `${w}px`, height: `${h}px` });
    }
    const g = this.canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    const room = { l: 42, r: 8, t: 6, b: 18 };
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    const xs = this.series.flatMap((s) => [s.points[0][0], s.points.at(-1)[0]]);
    const ys = this.series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v != null && Number.isFinite(v));
    if (!ys.length) {
      g.fillStyle = '#a3adb8';
      g.fillText('No numbers yet', room.l, h / 2);
      this.#names(null);
      return;
    }
    const lines = this.options.lines || [];
    let y0 = Math.min(...ys, ...lines.map((l) => l.at));
    let y1 = Math.max(...ys, ...lines.map((l) => l.at));
    if (this.options.low != null) y0 = this.options.low;
    if (this.options.high != null) y1 = this.options.high;
    if (y0 === y1) { y0 -= Math.abs(y0) * 0.1 + 0.01; y1 += Math.abs(y1) * 0.1 + 0.01; }
    const pad = this.options.low == null ? (y1 - y0) * 0.06 : 0;
    y0 -= pad;
    if (this.options.high == null) y1 += (y1 - y0) * 0.06;
    const x0 = Math.min(...xs);
    const x1 = Math.max(...xs, x0 + 1);
    const X = (x) => room.l + ((x - x0) / (x1 - x0)) * (w - room.l - room.r);
    const Y = (y) => h - room.b - ((y - y0) / (y1 - y0)) * (h - room.t - room.b);
    g.lineWidth = 1;
    g.textBaseline = 'middle';
    for (const v of ticks(y0, y1, Math.max(2, Math.floor(h / 42)))) {
      g.strokeStyle = '#232a32';
      g.beginPath(); g.moveTo(room.l, Y(v)); g.lineTo(w - room.r, Y(v)); g.stroke();
      g.fillStyle = '#a3adb8'; g.textAlign = 'right';
      g.fillText(said(v), room.l - 6, Y(v));
    }
    g.textBaseline = 'alphabetic';
    for (const v of ticks(x0, x1, Math.max(2, Math.floor(w / 90)))) {
      if (v !== Math.round(v)) continue;
      g.fillStyle = '#a3adb8'; g.textAlign = 'center';
      g.fillText(String(v), Math.min(X(v), w - 16), h - 4);
    }
    for (const line of lines) {
      g.setLineDash([4, 4]); g.strokeStyle = '#66727f';
      g.beginPath(); g.moveTo(room.l, Y(line.at)); g.lineTo(w - room.r, Y(line.at)); g.stroke();
      g.setLineDash([]); g.fillStyle = '#a3adb8'; g.textAlign = 'right';
      g.fillText(line.label, w - room.r - 2, Y(line.at) - 4);
    }
    for (const s of this.series) {
      g.strokeStyle = s.colour;
      g.lineWidth = s.thick ? 2.2 : 1.5;
      g.setLineDash(s.dash ? [5, 4] : []);
      g.beginPath();
      let pen = false;
      for (const [x, y] of s.points) {
        if (y == null) { pen = false; continue; }
        if (pen) g.lineTo(X(x), Y(y)); else g.moveTo(X(x), Y(y));
        pen = true;
      }
      g.stroke();
      g.setLineDash([]);
      if (s.points.length < 30) {
        g.fillStyle = s.colour;
        for (const [x, y] of s.points) if (y != null) { g.beginPath(); g.arc(X(x), Y(y), 2, 0, 7); g.fill(); }
      }
    }
    let at = null;
    if (this.at != null && this.at >= room.l) {
      at = x0 + ((this.at - room.l) / (w - room.l - room.r)) * (x1 - x0);
      g.strokeStyle = '#66727f';
      g.beginPath(); g.moveTo(this.at, room.t); g.lineTo(this.at, h - room.b); g.stroke();
    }
    this.#names(at);
  }

  // The legend names each line with its value at the crosshair, or its last.
  #names(at) {
    const value = (s) => {
      if (at == null) return s.points.at(-1)[1];
      let best = s.points[0];
      for (const p of s.points) if (Math.abs(p[0] - at) < Math.abs(best[0] - at)) best = p;
      return best[1];
    };
    const items = this.series.map((s) => el('span', {}, el('i', { style: `background:${s.colour}` }), `${s.name} `, el('b', { class: 'num' }, said(value(s)))));
    if (at != null) items.unshift(el('span', { class: 'num' }, `step ${Math.round(at)}`));
    this.legend.replaceChildren(...items);
  }
}
