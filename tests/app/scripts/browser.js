// The few things of a browser that a module touches when it is loaded, so that its pure parts can be tested without one.

/** A pen that writes down where it was: [from x, from y, to x, to y] of each segment. */
export class Pen {
  /** @type {number[][]} */
  segments = [];
  at = [0, 0];
  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.at = [x, y];
  }
  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.segments.push([...this.at, x, y]);
    this.at = [x, y];
  }
}

/** A mask from lines of text: # is 1. @param {string[]} lines */
export function maskOf(lines) {
  const w = lines[0].length;
  return { w, h: lines.length, mask: Uint8Array.from(lines.join(''), (c) => (c === '#' ? 1 : 0)) };
}

/** Lines of text from a mask. @param {ArrayLike<number>} mask @param {number} w */
export function linesOf(mask, w) {
  const all = Array.from(mask, (v) => (v ? '#' : '.')).join('');
  return all.match(new RegExp(`.{${w}}`, 'g'));
}

/** Reproducible numbers in 0..1. @param {number} seed */
export function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

Object.assign(globalThis, {
  window: globalThis,
  document: { createElement: () => ({ getContext: () => null }), addEventListener() {} },
  Path2D: Pen,
  matchMedia: () => ({ addEventListener() {} }),
  dispatchEvent: () => true,
  addEventListener() {},
});
Object.defineProperty(globalThis, 'devicePixelRatio', { value: 1, configurable: true });
