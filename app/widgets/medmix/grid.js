// The picture: classes A_0..A_k by sample on a canvas, with outlines; a click enlarges a cell.
import { signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { fetched, headed } from '../../static/api.js';
import { check, el } from '../../static/dom.js';
import { html } from '../../static/view.js';
import { outlines, SAMPLES, sources } from './scene.js';

/** @typedef {import('../../static/answers').GridHead & {mosaic: ImageBitmap}} Grid mosaic: all cells */
/** @typedef {{n: number, m: number}} Cell class and sample */
/** @typedef {{across: boolean, samples: number, cols: number, rows: number, cell: number}} Layout across: classes stand
 * as columns, samples as rows; samples: number shown; cell: height of a cell in CSS pixels */

const LEAST = 60; // minimum height of a cell in CSS pixels
const FEWEST = 4; // minimum number of samples if classes are columns

/** Returns the layout that fills a stage best: classes as rows, or as columns with as many samples as fit.
 * @param {number} classes @param {number} samples at most @param {number} aspect @param {number} wide @param {number}
 * high @returns {Layout} */
export function arranged(classes, samples, aspect, wide, high) {
  const made = (/** @type {boolean} */ across, /** @type {number} */ count) => {
    const [cols, rows] = across ? [classes, count] : [count, classes];
    const cell = Math.max(LEAST, Math.min(wide / (cols * aspect), high / rows));
    return { across, samples: count, cols, rows, cell };
  };
  const all = [made(false, samples)];
  for (let count = Math.min(FEWEST, samples); count <= samples; count += 1) all.push(made(true, count));
  const area = (/** @type {Layout} */ { cell, cols, rows }) => cell * cell * cols * rows;
  const fits = all.filter(({ cols, cell }) => cell * aspect * cols <= wide + 1);
  return (fits.length ? fits : all).reduce((best, one) => (area(one) > area(best) ? one : best));
}

/** Returns the layouts of grids side by side: all cells have the size that fits the grid with most classes.
 * @param {{rows: number, cols: number, aspect?: number | null}[]} grids @param {number} samples at most @param
 * {number} wide of each @param {number} high @returns {Layout[]} */
function arrangedAlike(grids, samples, wide, high) {
  const classes = Math.max(...grids.map((g) => g.rows));
  const aspect = Math.max(...grids.map((g) => g.aspect || 1));
  const laid = arranged(classes, Math.min(samples, ...grids.map((g) => g.cols)), aspect, wide, high);
  return grids.map(({ rows }) => ({ ...laid, ...(laid.across ? { cols: rows } : { rows }) }));
}

/** Parses a grid: a length, JSON, then the mosaic as a JPEG. @param {ArrayBuffer} packed @returns {Promise<Grid>} */
export async function unpack(packed) {
  const { head, at } = headed(packed);
  const picture = new Blob([new Uint8Array(packed, at)], { type: 'image/jpeg' });
  return { ...head, mosaic: await createImageBitmap(picture) };
}

/** @param {unknown} scene @param {AbortSignal} [signal] */
export const fetchGrid = async (scene, signal) =>
  unpack(await (await fetched('/api/medmix/grid', { scene }, { signal })).arrayBuffer());

/** Returns the points of an outline as SVG has them. @param {number[][]} line */
const corners = (line, left = 0, top = 0) => line.map(([x, y]) => `${left + x},${top + y}`).join(' ');

/** The grids to show, side by side. */
export const grids = signal(/** @type {{grid: Grid, title: string}[]} */ ([]));

/** @param {{stage: HTMLElement}} props the area to fill */
export function Grids({ stage }) {
  const resized = useSignal(0);
  useEffect(() => {
    new ResizeObserver(() => {
      resized.value += 1;
    }).observe(stage);
  }, []);
  resized.value;
  const all = grids.value;
  if (!all.length) return null;
  const { width, top } = stage.getBoundingClientRect();
  const wide = (width - (all.length - 1) * 18) / all.length;
  const samples = all.length > 1 ? SAMPLES / 2 : SAMPLES;
  const sizes = all.map(({ grid }) => grid);
  const layouts = arrangedAlike(sizes, samples, wide, window.innerHeight - top - 42);
  return all.map(
    ({ grid, title }, i) =>
      html`<${Picture} key=${i} grid=${grid} title=${all.length > 1 && title} laid=${layouts[i]} />`,
  );
}

/** @param {{grid: Grid, title: string | false, laid: Layout}} props */
function Picture({ grid, title, laid }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [hot, setHot] = useState(/** @type {Cell | null} */ (null)); // the cell under the pointer
  const { rows: classes, side } = grid;
  const { across, samples, cols, rows, cell } = laid;
  /** The column and row of sample m of class n, in cells; it is its own inverse. @returns {[number, number]} */
  const place = (/** @type {number} */ n, /** @type {number} */ m) => (across ? [n, m] : [m, n]);
  const all = Array.from({ length: classes * samples }, (_, i) => ({ n: Math.floor(i / samples), m: i % samples }));
  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d');
    for (const { n, m } of all) {
      const [x, y] = place(n, m);
      context?.drawImage(grid.mosaic, m * side, n * side, side, side, x * side, y * side, side, side);
    }
  });
  /** @param {any} event @returns {Cell | null} */
  const at = ({ currentTarget, clientX, clientY }) => {
    const box = currentTarget.getBoundingClientRect();
    const x = Math.floor(((clientX - box.left) / box.width) * cols);
    const y = Math.floor(((clientY - box.top) / box.height) * rows);
    const [m, n] = place(y, x);
    return x >= 0 && x < cols && y >= 0 && y < rows ? { n, m } : null;
  };
  const move = (/** @type {any} */ event) => {
    const now = at(event);
    if (now?.n !== hot?.n || now?.m !== hot?.m) setHot(now);
  };
  const enlarge = (/** @type {any} */ event) => {
    const chosen = at(event);
    if (chosen) zoom(grid, chosen, outlines.value);
  };
  const name = (/** @type {unknown} */ _, /** @type {number} */ n) => {
    const [x, y] = place(n, 0);
    const style = `left:calc(${(100 * x) / cols}% + 6px);top:${(100 * y) / rows + 0.8}%`;
    return html`<span class="class-name" style=${style}>A<sub>${n}</sub></span>`;
  };
  const gap = (/** @type {number} */ x, /** @type {number} */ y) =>
    html`<line class="gap" x1=${x} x2=${x || cols} y1=${y} y2=${y || rows} />`;
  const lesions = all.flatMap(({ n, m }) =>
    grid.outlines[n][m].map((line) => html`<polygon points=${corners(line, ...place(n, m))} />`),
  );
  // Without a pointer only the sources of A_1, or boxes would cover the picture; none of another study's image.
  const cuts = grid.sources.filter(
    ({ n, m, donor }) => (hot ? n === hot.n && m === hot.m : n === 1) && m < samples && donor < samples,
  );
  const source = (
    /** @type {Grid['sources'][number]} */ { n, m, donor, box: [x0, y0, x1, y1], to: [u0, v0, u1, v1] },
  ) => {
    const [[left, top], [to, down]] = [place(0, donor), place(n, m)];
    return html`<rect class="cut" x=${left + x0} y=${top + y0} width=${x1 - x0} height=${y1 - y0} />
      <line class="way" x1=${left + (x0 + x1) / 2} y1=${top + (y0 + y1) / 2}
        x2=${to + (u0 + u1) / 2} y2=${down + (v0 + v1) / 2} />`;
  };
  const [hotX, hotY] = hot ? place(hot.n, hot.m) : [0, 0];
  const size = `width:${Math.floor(cell * (grid.aspect || 1) * cols)}px;height:${Math.floor(cell * rows)}px`;
  return html`<div class="grid" style=${size} onMouseMove=${move} onMouseLeave=${() => setHot(null)} onClick=${enlarge}>
    <canvas ref=${canvas} role="img" width=${cols * side} height=${rows * side}
      aria-label="Classes A_0 to A_${classes - 1} of ${samples} samples" />
    <svg preserveAspectRatio="none" viewBox="0 0 ${cols} ${rows}">
      ${Array.from({ length: cols - 1 }, (_, c) => gap(c + 1, 0))}
      ${Array.from({ length: rows - 1 }, (_, r) => gap(0, r + 1))}
      ${outlines.value && lesions}
      ${sources.value && cuts.map(source)}
      ${hot && html`<rect class="hot" x=${hotX} y=${hotY} width="1" height="1" />`}
    </svg>
    ${Array.from({ length: classes }, name)}
    ${title && html`<h3>${title}</h3>`}
  </div>`;
}

/** Enlarges a cell. @param {Grid} grid @param {Cell} cell @param {boolean} outlined at first */
function zoom({ side, names, aspect, mosaic, outlines: all }, { n, m }, outlined) {
  const width = Math.round(side * (aspect || 1));
  const canvas = el('canvas', { width, height: side });
  canvas.getContext('2d')?.drawImage(mosaic, m * side, n * side, side, side, 0, 0, width, side);
  const lines = all[n][m].map((line) => el('polygon', { points: corners(line) }));
  const svg = el('svg', { viewBox: '0 0 1 1', preserveAspectRatio: 'none' }, lines);
  const { label } = check('Lesion outlines', { checked: outlined });
  const text = `A_${n} of ${names[m]} · click the image or press Esc to close`;
  const dialog = el('dialog', { class: 'zoom' }, el('div', {}, canvas, svg), el('p', {}, label, text));
  canvas.onclick = svg.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}
