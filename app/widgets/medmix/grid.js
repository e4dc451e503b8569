// The picture: classes A_0..A_k by sample on a canvas, outlines over it, a cell enlarged on a click.
const { el } = window.Studio;

// Asks for a grid: a length, JSON, then the pixels as they are.
export async function fetchGrid(scene) {
  const answer = await fetch('/api/medmix/grid', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ scene }) });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || 'The picture could not be made.');
  const bytes = await answer.arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return { ...about, pixels: new Uint8ClampedArray(bytes.slice(4 + length)) };
}

export class Sheet {
  // stage: what the grids must fit into; asked(): {outlines, sources}, what is to be marked.
  constructor(stage, sheet, asked) {
    Object.assign(this, { stage, sheet, asked, drawn: [] });
    new ResizeObserver(() => this.drawn.length && this.show([...this.drawn])).observe(stage);
  }

  #cell(rows, cols, count) {
    const stage = this.stage.getBoundingClientRect();
    const wide = (stage.width - (count - 1) * 18) / (cols * count);
    const high = (window.innerHeight - stage.top - 42) / rows;
    return Math.max(60, Math.min(wide, Math.max(high, 90)));
  }

  show(grids) {
    const { sheet, drawn } = this;
    while (sheet.children.length > grids.length) sheet.lastChild.remove();
    drawn.length = grids.length;
    grids.forEach((grid, i) => {
      let box = sheet.children[i];
      if (!box) {
        box = el('div', { class: 'grid' }, el('canvas'), el('svg', { preserveAspectRatio: 'none' }));
        box.onmousemove = (event) => this.#marks(i, this.#at(i, event));
        box.onmouseleave = () => this.#marks(i, null);
        box.onclick = (event) => this.#zoom(i, event);
        sheet.append(box);
      }
      drawn[i] = grid;
      const canvas = box.querySelector('canvas');
      const [w, h] = [grid.cols * grid.side, grid.rows * grid.side];
      if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
      canvas.getContext('2d').putImageData(new ImageData(grid.pixels, w, h), 0, 0);
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `Classes A_0 to A_${grid.rows - 1} of ${grid.cols} samples`);
      const cell = this.#cell(grid.rows, grid.cols, grids.length);
      box.style.width = `${Math.floor(cell * grid.cols)}px`;
      box.style.height = `${Math.floor(cell * grid.rows)}px`;
      box.querySelectorAll('.class-name, h3').forEach((n) => n.remove());
      for (let n = 0; n < grid.rows; n += 1) {
        box.append(el('span', { class: 'class-name', style: `top:${(100 * n) / grid.rows + 0.8}%` }, 'A', el('sub', {}, String(n))));
      }
      if (grids.length > 1) box.append(el('h3', {}, i ? 'kept' : 'now'));
      this.#marks(i, null);
    });
  }

  mark() {
    this.drawn.forEach((_, i) => this.#marks(i, null));
  }

  #marks(i, hot) {
    const grid = this.drawn[i];
    const svg = this.sheet.children[i]?.querySelector('svg');
    if (!grid || !svg) return;
    const { outlines, sources } = this.asked();
    svg.setAttribute('viewBox', `0 0 ${grid.cols} ${grid.rows}`);
    const parts = [];
    for (let c = 1; c < grid.cols; c += 1) parts.push(el('line', { class: 'gap', x1: c, x2: c, y1: 0, y2: grid.rows }));
    for (let r = 1; r < grid.rows; r += 1) parts.push(el('line', { class: 'gap', y1: r, y2: r, x1: 0, x2: grid.cols }));
    if (outlines) {
      grid.outlines.forEach((row, n) => row.forEach((lines, m) => lines.forEach((line) =>
        parts.push(el('polygon', { points: line.map(([x, y]) => `${m + x},${n + y}`).join(' ') })))));
    }
    for (const s of sources ? grid.sources : []) {
      if (hot && (s.n !== hot.n || s.m !== hot.m)) continue;
      if (!hot && s.n !== 1) continue; // at rest only A_1's, or the picture would be all boxes
      if (s.donor >= grid.cols) continue; // another study's image, which is not in the picture
      const [x0, y0, x1, y1] = s.box;
      const [u0, v0, u1, v1] = s.to;
      parts.push(el('rect', { class: 'cut', x: s.donor + x0, y: y0, width: x1 - x0, height: y1 - y0 }));
      parts.push(el('line', { class: 'way', x1: s.donor + (x0 + x1) / 2, y1: (y0 + y1) / 2, x2: s.m + (u0 + u1) / 2, y2: s.n + (v0 + v1) / 2 }));
    }
    if (hot) parts.push(el('rect', { class: 'hot', x: hot.m, y: hot.n, width: 1, height: 1 }));
    svg.replaceChildren(...parts);
  }

  #at(i, event) {
    const box = this.sheet.children[i].getBoundingClientRect();
    const { rows, cols } = this.drawn[i];
    const m = Math.floor(((event.clientX - box.left) / box.width) * cols);
    const n = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return m >= 0 && m < cols && n >= 0 && n < rows ? { n, m } : null;
  }

  #zoom(i, event) {
    const at = this.#at(i, event);
    if (!at) return;
    const { side, names } = this.drawn[i];
    const canvas = el('canvas', { width: side, height: side });
    canvas.getContext('2d').drawImage(this.sheet.children[i].querySelector('canvas'), at.m * side, at.n * side, side, side, 0, 0, side, side);
    const dialog = el('dialog', { class: 'zoom' }, canvas, el('p', {}, `A_${at.n} of ${names[at.m]} · click or Esc to close`));
    dialog.onclick = () => dialog.close();
    dialog.onclose = () => dialog.remove();
    document.body.append(dialog);
    dialog.showModal();
  }
}
