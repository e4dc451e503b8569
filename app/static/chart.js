// Charts of a training: few lines, many points, a crosshair with values in the legend. Drawn by uPlot (vendor/).
import { el, fill } from './dom.js';
import uPlot from './vendor/uPlot.esm.js';
import { dom } from './view.js';

export const COLOURS = Array.from({ length: 8 }, (_, i) => `var(--series-${i})`);
/** Resolves a colour for the canvas, which does not know CSS tokens. @param {string} colour */
const ink = (colour) =>
  colour.startsWith('var(') ? getComputedStyle(document.documentElement).getPropertyValue(colour.slice(4, -1)) : colour;
const TEXT = 'var(--dim)';
const EDGE = 'var(--edge)';
const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
const DOTTED = 30; // lines with fewer points show each point
const STEPS = [1, 2, 5].flatMap((m) => [m, 10 * m, 100 * m, 1e3 * m, 1e4 * m, 1e5 * m, 1e6 * m]).sort((a, b) => a - b);

export class Chart {
  /** @param {{title: string, unit?: string} & Bounds} options unit: of x; lines: levels drawn
   * across the chart */
  constructor(options) {
    this.options = options;
    /** @type {Page.Line[]} */
    this.series = [];
    /** @type {uPlot | null} null while there is nothing to draw or no room for it */
    this.plot = null;
    this.shape = ''; // names, colours and dashes of the lines; a change recreates the plot
    this.legend = el('div', { class: 'legend' });
    this.none = el('p', { class: 'dim none' }, 'No numbers yet');
    this.box = el('div', { class: 'plot', role: 'img', 'aria-label': options.title }, this.none);
    const caption = dom`<figcaption><b>${options.title}</b>${this.legend}</figcaption>`;
    this.element = dom`<figure class="chart">${caption}${this.box}</figure>`;
    new ResizeObserver(() => this.draw()).observe(this.box);
    addEventListener('theme', () => this.plot?.redraw());
  }

  /** @param {Page.Line[]} series those without points are skipped */
  put(series) {
    this.series = series
      .filter((s) => s.points.length)
      .map((s, i) => ({ ...s, colour: s.colour || COLOURS[i % COLOURS.length] }));
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.box;
    const empty = !this.series.some((s) => s.points.some(([, y]) => y != null));
    this.none.hidden = !empty;
    const shape = JSON.stringify(this.series.map(({ points, ...look }) => [look, points.length < DOTTED]));
    if (this.plot && (empty || shape !== this.shape)) {
      this.plot.destroy();
      this.plot = null;
    }
    this.#names(null);
    if (empty || !width || !height) return;
    const data = aligned(this.series);
    if (!this.plot) {
      this.shape = shape;
      this.plot = new uPlot(this.#look(width, height), data, this.box);
      return;
    }
    if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
    this.plot.setData(data);
  }

  /** @param {number} width @param {number} height @returns {uPlot.Options} */
  #look(width, height) {
    const axis = { stroke: () => ink(TEXT), font: FONT, ticks: { show: false } };
    return {
      width,
      height,
      padding: [6, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, from, to) => [from, Math.max(to, from + 1)] },
        y: { range: () => limits(this.series, this.options) },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 18, gap: 2, space: 90, incrs: STEPS },
        {
          ...axis,
          grid: { stroke: () => ink('var(--grid)'), width: 1 },
          size: 42,
          gap: 4,
          space: 26,
          values: (_, values) => values.map(label),
        },
      ],
      series: [{}, ...this.series.map(lineOf)],
      hooks: {
        draw: [(plot) => this.#levels(plot)],
        setCursor: [(plot) => this.#names(plot.cursor.idx == null ? null : plot.data[0][plot.cursor.idx])],
      },
    };
  }

  // Level lines with their names, dashed.
  /** @param {uPlot} plot */
  #levels(plot) {
    const { ctx, bbox } = plot;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 4 * ratio]);
    ctx.font = FONT.replace('11px', `${11 * ratio}px`);
    ctx.textAlign = 'right';
    for (const line of this.options.lines || []) {
      const y = plot.valToPos(line.at, 'y', true);
      ctx.strokeStyle = ink(EDGE);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.fillStyle = ink(TEXT);
      ctx.fillText(line.label, bbox.left + bbox.width - 2 * ratio, y - 4 * ratio);
    }
    ctx.restore();
  }

  // The legend names each line with its value at the crosshair, or its last.
  /** @param {number | null} at */
  #names(at) {
    const names = this.series.map(
      (s) =>
        dom`<span><i style="background:${s.colour}" />${s.name} <b class="num">${label(valueAt(s, at))}</b></span>`,
    );
    const unit = this.options.unit || 'step';
    fill(this.legend, at == null ? null : dom`<span class="num">${unit} ${Math.round(at)}</span>`, names);
  }
}

/** @param {Page.Line} line @returns {uPlot.Series} */
const lineOf = ({ colour, dash, thick, points }) => ({
  stroke: () => ink(colour || COLOURS[0]),
  width: thick ? 2.2 : 1.5,
  dash: dash ? [5, 4] : undefined,
  points: { show: points.length < DOTTED, size: 4, fill: () => ink(colour || COLOURS[0]), width: 0 },
});

/** @typedef {{low?: number, high?: number, lines?: {at: number, label: string}[]}} Bounds low, high: fixed limits */

/** Formats a chart's number in few characters. @param {number | null | undefined} v */
export function label(v) {
  if (v == null) return '–';
  const a = Math.abs(v);
  if (a && (a < 0.001 || a >= 1e5)) return v.toExponential(1);
  return String(Number(v.toPrecision(a >= 100 ? 4 : 3)));
}

/** Puts all lines on the union of their x: [xs, ys, ys, ...]. `undefined` means no point at an x (the line is drawn
 * through), `null` a missing value (the line is interrupted). @param {Page.Line[]} lines each with rising x */
export const aligned = (lines) =>
  uPlot.join(lines.map(({ points }) => [points.map(([x]) => x), points.map(([, y]) => y)]));

/** Returns the limits of y: the drawn values with a margin of 6 %, or the fixed limits.
 * @param {Pick<Page.Line, 'points'>[]} series @param {Bounds} bounds @returns {[number, number]} */
export function limits(series, { low, high, lines = [] }) {
  const known = series.flatMap(({ points }) => points.flatMap(([, y]) => y ?? []));
  const all = [...known, ...lines.map((line) => line.at)];
  if (!all.length) return [low ?? 0, high ?? 1];
  let from = low ?? all.reduce((a, b) => Math.min(a, b));
  let to = high ?? all.reduce((a, b) => Math.max(a, b));
  if (from === to) {
    from -= Math.abs(from) * 0.1 + 0.01;
    to += Math.abs(to) * 0.1 + 0.01;
  }
  const margin = (to - from) * 0.06;
  return [low == null ? from - margin : from, high == null ? to + margin : to];
}

/** A line's value at the point nearest to x, or its last if x is null. @param {Page.Line} line @param {number | null} x */
export function valueAt({ points }, x) {
  if (x == null) return points[points.length - 1][1];
  return points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best))[1];
}
