// The picture: classes A_0..A_k by sample on a canvas, outlines over it, a cell enlarged on a click.
import { fetched } from '../../static/api.js';
import { el } from '../../static/dom.js';

/** @typedef {import('../../static/answers').GridHead & {mosaic: ImageBitmap}} Grid mosaic: all cells */
/** @typedef {{n: number, m: number}} Cell class and sample */

/** Takes a grid apart: a length, JSON, then the mosaic as a JPEG. @param {ArrayBuffer} packed @returns {Promise<Grid>} */
export async function unpack(packed) {
  const length = new DataView(packed).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(packed, 4, length)));
  const picture = new Blob([new Uint8Array(packed, 4 + length)], { type: 'image/jpeg' });
  return { ...head, mosaic: await createImageBitmap(picture) };
}

/** @param {unknown} scene */
export const fetchGrid = async (scene) => unpack(await (await fetched('/api/medmix/grid', { scene })).arrayBuffer());

export class Sheet {
  /**
   * @param {HTMLElement} stage what the grids must fit into
   * @param {HTMLElement} sheet where they are put
   * @param {() => {outlines: boolean, sources: boolean}} asked what is to be marked
   */
  constructor(stage, sheet, asked) {
    this.stage = stage;
    this.sheet = sheet;
    this.asked = asked;
    /** @type {{box: HTMLElement, canvas: HTMLCanvasElement, svg: SVGElement, grid: Grid, title: string}[]} */
    this.drawn = [];
    this.samples = 0; // how many of each grid are shown, from the left
    new ResizeObserver(() => this.drawn.length && this.show(this.drawn, this.samples)).observe(stage);
  }

  /** Height of a cell in CSS pixels. @param {number} rows @param {number} cols @param {number} aspect @param {number} count */
  #cell(rows, cols, aspect, count) {
    const stage = this.stage.getBoundingClientRect();
    const wide = (stage.width - (count - 1) * 18) / (cols * count * aspect);
    const high = (window.innerHeight - stage.top - 42) / rows;
    return Math.max(60, Math.min(wide, Math.max(high, 90)));
  }

  /** @param {{grid: Grid, title: string}[]} shown side by side @param {number} samples of each, from the left */
  show(shown, samples) {
    const grids = shown.map(({ grid, title }) => ({ grid, title }));
    this.samples = samples;
    for (const { box } of this.drawn.splice(grids.length)) box.remove();
    grids.forEach(({ grid, title }, i) => {
      const { rows, side } = grid;
      const cols = this.#cols(grid);
      this.drawn[i] ||= this.#box(i, grid);
      Object.assign(this.drawn[i], { grid, title });
      const { box, canvas } = this.drawn[i];
      const [width, height] = [cols * side, rows * side];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      canvas.getContext('2d')?.drawImage(grid.mosaic, 0, 0);
      canvas.setAttribute('aria-label', `Classes A_0 to A_${rows - 1} of ${cols} samples`);
      const aspect = grid.aspect || 1;
      const cell = this.#cell(rows, cols, aspect, grids.length);
      box.style.width = `${Math.floor(cell * aspect * cols)}px`;
      box.style.height = `${Math.floor(cell * rows)}px`;
      for (const old of box.querySelectorAll('.class-name, h3')) old.remove();
      for (let n = 0; n < rows; n += 1) {
        const style = `top:${(100 * n) / rows + 0.8}%`;
        box.append(el('span', { class: 'class-name', style }, 'A', el('sub', {}, String(n))));
      }
      if (grids.length > 1) box.append(el('h3', {}, title));
      this.#marks(i, null);
    });
  }

  /** How many samples of a grid are shown. @param {Grid} grid */
  #cols({ cols }) {
    return Math.min(cols, this.samples);
  }

  /** @param {number} i @param {Grid} grid */
  #box(i, grid) {
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
    return { box, canvas, svg, grid, title: '' };
  }

  mark() {
    this.drawn.forEach((_, i) => this.#marks(i, null));
  }

  /** @param {number} i @param {Cell | null} hot the cell under the pointer */
  #marks(i, hot) {
    if (!this.drawn[i]) return;
    const { grid, svg } = this.drawn[i];
    const { outlines, sources } = this.asked();
    const cols = this.#cols(grid);
    svg.setAttribute('viewBox', `0 0 ${cols} ${grid.rows}`);
    /** @type {SVGElement[]} */
    const parts = [];
    for (let c = 1; c < cols; c += 1) parts.push(el('line', { class: 'gap', x1: c, x2: c, y1: 0, y2: grid.rows }));
    for (let r = 1; r < grid.rows; r += 1) parts.push(el('line', { class: 'gap', y1: r, y2: r, x1: 0, x2: cols }));
    if (outlines) {
      grid.outlines.forEach((row, n) =>
        row
          .slice(0, cols)
          .forEach((lines, m) =>
            lines.forEach((line) =>
              parts.push(el('polygon', { points: line.map(([x, y]) => `${m + x},${n + y}`).join(' ') })),
            ),
          ),
      );
    }
    for (const s of sources ? grid.sources : []) {
      if (hot && (s.n !== hot.n || s.m !== hot.m)) continue;
      if (!hot && s.n !== 1) continue; // at rest only A_1's, or the picture would be all boxes
      if (s.m >= cols || s.donor >= cols) continue; // not in the picture: further right, or another study's image
      const [x0, y0, x1, y1] = s.box;
      const [u0, v0, u1, v1] = s.to;
      parts.push(el('rect', { class: 'cut', x: s.donor + x0, y: y0, width: x1 - x0, height: y1 - y0 }));
      parts.push(
        el('line', {
          class: 'way',
          x1: s.donor + (x0 + x1) / 2,
          y1: (y0 + y1) / 2,
          x2: s.m + (u0 + u1) / 2,
          y2: s.n + (v0 + v1) / 2,
        }),
      );
    }
    if (hot) parts.push(el('rect', { class: 'hot', x: hot.m, y: hot.n, width: 1, height: 1 }));
    svg.replaceChildren(...parts);
  }

  /** @param {number} i @param {MouseEvent} event @returns {Cell | null} */
  #at(i, event) {
    const box = this.drawn[i].box.getBoundingClientRect();
    const { rows } = this.drawn[i].grid;
    const cols = this.#cols(this.drawn[i].grid);
    const m = Math.floor(((event.clientX - box.left) / box.width) * cols);
    const n = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return m >= 0 && m < cols && n >= 0 && n < rows ? { n, m } : null;
  }

  /** @param {number} i @param {MouseEvent} event */
  #zoom(i, event) {
    const at = this.#at(i, event);
    if (!at) return;
    const { side, names, aspect } = this.drawn[i].grid;
    const width = Math.round(side * (aspect || 1));
    const canvas = el('canvas', { width, height: side });
    const from = this.drawn[i].canvas;
    canvas.getContext('2d')?.drawImage(from, at.m * side, at.n * side, side, side, 0, 0, width, side);
    const dialog = el(
      'dialog',
      { class: 'zoom' },
      canvas,
      el('p', {}, `A_${at.n} of ${names[at.m]} · click or Esc to close`),
    );
    dialog.onclick = () => dialog.close();
    dialog.onclose = () => dialog.remove();
    document.body.append(dialog);
    dialog.showModal();
  }
}
