// Pointer and keys on one plot. Wheel zooms, drag pans (or draws, with the box or lasso; Shift always draws a lasso).

/**
 * Callbacks of a plot. hover: the point below the pointer, or -1, and its position.
 * @typedef {object} Listener
 * @property {() => string} tool
 * @property {() => void} active
 * @property {(i: number, x?: number, y?: number) => void} hover
 * @property {(i: number, add: boolean) => void} click
 * @property {(found: number[], add: boolean) => void} select
 * @property {(key: string) => (() => void) | null | undefined} key
 */
/** @typedef {{tool: string, x: number, y: number, startX: number, startY: number, moved: boolean, add: boolean,
 *   path: number[]}} Drag */

/** @param {import('./plot.js').Plot} plot @param {Listener} on */
export function attach(plot, on) {
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
      on.hover(-1);
    },
    { passive: false },
  );

  canvas.addEventListener('pointerdown', (event) => {
    if (!plot.map || event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = at(event);
    const tool = event.button === 1 ? 'pan' : event.shiftKey ? 'lasso' : on.tool();
    drag = { tool, x, y, startX: x, startY: y, moved: false, add: event.ctrlKey || event.metaKey, path: [x, y] };
    on.active();
  });

  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = at(event);
    if (!drag) {
      const i = plot.pick(x, y);
      if (i !== plot.hover) {
        plot.hover = i;
        plot.redraw(false);
      }
      on.hover(i, x, y);
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.startX, y - drag.startY) < 4) return;
    drag.moved = true;
    on.hover(-1);
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
      if (event.type === 'pointerup') on.click(plot.pick(done.startX, done.startY), done.add);
    } else if (done.tool !== 'pan' && plot.trail) {
      const polygon = [];
      for (let k = 0; k < plot.trail.length; k += 2) {
        const p = plot.world(plot.trail[k], plot.trail[k + 1]);
        polygon.push(p.x, p.y);
      }
      on.select(plot.grid.inside(polygon, plot.visible), done.add);
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
    on.hover(-1);
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
    const act = keys[event.key] || on.key(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}
