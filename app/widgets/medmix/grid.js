// The picture: classes A_0..A_k by sample on a canvas, with outlines; a click enlarges a cell.
import { fetched, headed } from '../../static/api.js';
import { check, el } from '../../static/dom.js';

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

export class Sheet {
  /** @param {HTMLElement} stage the area to fill @param {HTMLElement} sheet contains the grids @param {()
   * => {outlines: boolean, sources: boolean}} asked what to draw over the grids */
  constructor(stage, sheet, asked) {
    this.stage = stage;
    this.sheet = sheet;
    this.asked = asked;
    /** @type {{box: HTMLElement, canvas: HTMLCanvasElement, svg: SVGElement, grid: Grid, title: string, laid: Layout}[]} */
    this.drawn = [];
    this.samples = 0; // number of samples shown of each grid, from the first
    new ResizeObserver(() => this.drawn.length && this.show(this.drawn, this.samples)).observe(stage);
  }

  /** @param {{grid: Grid, title: string}[]} shown side by side @param {number} samples of each, at most */
  show(shown, samples) {
    const grids = shown.map(({ grid, title }) => ({ grid, title }));
    this.samples = samples;
    for (const { box } of this.drawn.splice(grids.length)) box.remove();
    const stage = this.stage.getBoundingClientRect();
    const wide = (stage.width - (grids.length - 1) * 18) / grids.length;
    const sizes = grids.map(({ grid }) => grid);
    const layouts = arrangedAlike(sizes, samples, wide, window.innerHeight - stage.top - 42);
    grids.forEach(({ grid, title }, i) => {
      const { rows: classes, side } = grid;
      const aspect = grid.aspect || 1;
      const laid = layouts[i];
      this.drawn[i] ||= this.#box(i, grid, laid);
      Object.assign(this.drawn[i], { grid, title, laid });
      const { box, canvas } = this.drawn[i];
      const { cols, rows } = laid;
      const [width, height] = [cols * side, rows * side];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const context = canvas.getContext('2d');
      for (let n = 0; n < classes; n += 1)
        for (let m = 0; m < laid.samples; m += 1) {
          const [x, y] = this.#place(i, n, m);
          context?.drawImage(grid.mosaic, m * side, n * side, side, side, x * side, y * side, side, side);
        }
      canvas.setAttribute('aria-label', `Classes A_0 to A_${classes - 1} of ${laid.samples} samples`);
      box.style.width = `${Math.floor(laid.cell * aspect * cols)}px`;
      box.style.height = `${Math.floor(laid.cell * rows)}px`;
      for (const old of box.querySelectorAll('.class-name, h3')) old.remove();
      for (let n = 0; n < classes; n += 1) {
        const [x, y] = this.#place(i, n, 0);
        const style = `left:calc(${(100 * x) / cols}% + 6px);top:${(100 * y) / rows + 0.8}%`;
        box.append(el('span', { class: 'class-name', style }, 'A', el('sub', {}, String(n))));
      }
      if (grids.length > 1) box.append(el('h3', {}, title));
      this.#marks(i, null);
    });
  }

  /** Returns the column and row of sample m of class n, in cells; it is its own inverse.
   * @param {number} i @param {number} n @param {number} m @returns {[number, number]} */
  #place(i, n, m) {
    return this.drawn[i].laid.across ? [n, m] : [m, n];
  }

  /** @param {number} i @param {Grid} grid @param {Layout} laid */
  #box(i, grid, laid) {
    const canvas = el('canvas', { role: 'img' });
    const svg = el('svg', { preserveAspectRatio: 'none' });
    const box = el(
      'div',
      {
        class: 'grid',
        onmousemove: (/** @type {MouseEvent} */ event) => this.#marks(i, this.#at(i, event)),
        onmouseleave: () => this.#marks(i, null),
        onclick: (/** @type {MouseEvent} */ event) => this.#zoom(i, event),
      },
      canvas,
      svg,
    );
    this.sheet.append(box);
    return { box, canvas, svg, grid, title: '', laid };
  }

  mark() {
    this.drawn.forEach((_, i) => this.#marks(i, null));
  }

  /** @param {number} i @param {Cell | null} hot the cell under the pointer */
  #marks(i, hot) {
    if (!this.drawn[i]) return;
    const { grid, svg, laid } = this.drawn[i];
    const { outlines, sources } = this.asked();
    const place = (/** @type {number} */ n, /** @type {number} */ m) => this.#place(i, n, m);
    const { cols, rows } = laid;
    svg.setAttribute('viewBox', `0 0 ${cols} ${rows}`);
    /** @type {SVGElement[]} */
    const parts = [];
    for (let c = 1; c < cols; c += 1) parts.push(el('line', { class: 'gap', x1: c, x2: c, y1: 0, y2: rows }));
    for (let r = 1; r < rows; r += 1) parts.push(el('line', { class: 'gap', y1: r, y2: r, x1: 0, x2: cols }));
    if (outlines) {
      grid.outlines.forEach((row, n) =>
        row.slice(0, laid.samples).forEach((lines, m) => {
          const [left, top] = place(n, m);
          for (const line of lines)
            parts.push(el('polygon', { points: line.map(([x, y]) => `${left + x},${top + y}`).join(' ') }));
        }),
      );
    }
    for (const s of sources ? grid.sources : []) {
      if (hot && (s.n !== hot.n || s.m !== hot.m)) continue;
      if (!hot && s.n !== 1) continue; // without a pointer only those of A_1, or boxes would cover the picture
      if (s.m >= laid.samples || s.donor >= laid.samples) continue; // not in the picture, or another study's image
      const [[left, top], [to, down]] = [place(0, s.donor), place(s.n, s.m)];
      const [x0, y0, x1, y1] = s.box;
      const [u0, v0, u1, v1] = s.to;
      parts.push(el('rect', { class: 'cut', x: left + x0, y: top + y0, width: x1 - x0, height: y1 - y0 }));
      parts.push(
        el('line', {
          class: 'way',
          x1: left + (x0 + x1) / 2,
          y1: top + (y0 + y1) / 2,
          x2: to + (u0 + u1) / 2,
          y2: down + (v0 + v1) / 2,
        }),
      );
    }
    if (hot) {
      const [x, y] = place(hot.n, hot.m);
      parts.push(el('rect', { class: 'hot', x, y, width: 1, height: 1 }));
    }
    svg.replaceChildren(...parts);
  }

  /** @param {number} i @param {MouseEvent} event @returns {Cell | null} */
  #at(i, event) {
    const box = this.drawn[i].box.getBoundingClientRect();
    const { cols, rows } = this.drawn[i].laid;
    const x = Math.floor(((event.clientX - box.left) / box.width) * cols);
    const y = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const [m, n] = this.#place(i, y, x);
    return x >= 0 && x < cols && y >= 0 && y < rows ? { n, m } : null;
  }

  /** @param {number} i @param {MouseEvent} event */
  #zoom(i, event) {
    const at = this.#at(i, event);
    if (!at) return;
    const { side, names, aspect } = this.drawn[i].grid;
    const width = Math.round(side * (aspect || 1));
    const canvas = el('canvas', { width, height: side });
    const from = this.drawn[i].grid.mosaic;
    canvas.getContext('2d')?.drawImage(from, at.m * side, at.n * side, side, side, 0, 0, width, side);
    const lines = this.drawn[i].grid.outlines[at.n][at.m].map((line) => el('polygon', { points: line.join(' ') }));
    const svg = el('svg', { viewBox: '0 0 1 1', preserveAspectRatio: 'none' }, lines);
    const outline = () => svg.toggleAttribute('hidden', !box.checked);
    const { box, label } = check('Lesion outlines', { checked: this.asked().outlines, onchange: outline });
    outline();
    const dialog = el(
      'dialog',
      { class: 'zoom' },
      el('div', {}, canvas, svg),
      el('p', {}, label, `A_${at.n} of ${names[at.m]} · click the image or press Esc to close`),
    );
    canvas.onclick = svg.onclick = () => dialog.close();
    dialog.onclose = () => dialog.remove();
    document.body.append(dialog);
    dialog.showModal();
  }
}
