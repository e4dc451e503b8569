// Paints points directly into pixels, without paths or sprites: 50,000 take a few milliseconds without a graphics card.
const GROUND = 0xff13100d; // #0d1013, opaque, little-endian
const MARGIN = 32; // pixels round the canvas, so that a disc at its edge needs no clipping
const STEPS = 4; // stamps at quarter pixels, so that slow motion does not jump

/** @typedef {ReturnType<typeof stamps>} Stamps */
/** @typedef {{scale: number, dx: number, dy: number}} View to pixels */
/** @typedef {{colours: Uint32Array, visible: Uint8Array, selected: Uint8Array | null, radius: number, rim: boolean,
 * order: Int32Array}} Points selected: null if none is, then all are bright */

// Discs of `radius` at STEPS x STEPS offsets. Each is a list of the pixels it touches: their distance from the
// disc's corner in an image of that width, and their coverage, 1..256.
/** @param {number} radius @param {number} width */
function stamps(radius, width) {
  const side = 2 * Math.ceil(radius) + 2;
  const discs = [];
  for (let oy = 0; oy < STEPS; oy += 1) {
    for (let ox = 0; ox < STEPS; ox += 1) {
      const at = [];
      const covers = [];
      const cx = side / 2 - 0.5 + (ox + 0.5) / STEPS;
      const cy = side / 2 - 0.5 + (oy + 0.5) / STEPS;
      for (let y = 0; y < side; y += 1) {
        for (let x = 0; x < side; x += 1) {
          const d = Math.hypot(x + 0.5 - cx, y + 0.5 - cy);
          const cover = Math.round(256 * Math.min(Math.max(radius + 0.5 - d, 0), 1));
          if (!cover) continue;
          at.push(y * width + x);
          covers.push(cover);
        }
      }
      discs.push({ at: Int32Array.from(at), cover: Int32Array.from(covers) });
    }
  }
  return { half: side / 2, discs };
}

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { alpha: false }));
    this.canvas = canvas;
    this.image = this.context.createImageData(1, 1);
    this.pixels = new Uint32Array(0); // of the image; empty before the size is known
    this.stride = 0; // width of the image
    /** @type {Map<number, Stamps>} by radius */
    this.made = new Map();
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    if (this.pixels.length && this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.stride = width + 2 * MARGIN;
    this.image = this.context.createImageData(this.stride, height + 2 * MARGIN);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.made.clear();
  }

  /** @param {Float32Array} at x, y of all points in map units @param {View} view @param {Points} points
   * @param {number} [shade] strength of all */
  paint(at, view, points, shade = 1) {
    this.pixels.fill(GROUND);
    const { selected, rim } = points;
    this.pass(at, view, { ...points, rim: rim && !selected }, selected ? 0.22 * shade : shade, 0);
    if (selected) this.pass(at, view, points, 1, 1);
    this.context.putImageData(this.image, -MARGIN, -MARGIN);
  }

  /** Paints the points that `selected` has as `wanted`. @param {Float32Array} at @param {View} view @param {Points} points
   * @param {number} strength @param {number} wanted */
  pass(at, { scale, dx, dy }, { colours, visible, selected, radius, rim, order }, strength, wanted) {
    const { width, height } = this.canvas;
    const inner = this.stamps(radius);
    const outer = rim ? this.stamps(radius + 1) : null;
    const s = Math.round(256 * strength);
    const edge = radius + 3;
    for (let k = 0, n = order.length; k < n; k += 1) {
      const i = order[k];
      if (!visible[i] || (selected && selected[i] !== wanted)) continue;
      const x = at[2 * i] * scale + dx;
      const y = at[2 * i + 1] * -scale + dy;
      if (!(x > -edge && y > -edge && x < width + edge && y < height + edge)) continue;
      if (outer) this.stamp(outer, x, y, GROUND, 190);
      this.stamp(inner, x, y, colours[i], s);
    }
  }

  /** @param {number} radius */
  stamps(radius) {
    const key = Math.round(radius * 4) / 4;
    const kept = this.made.get(key) || stamps(key, this.stride);
    this.made.set(key, kept);
    return kept;
  }

  /** @param {Stamps} stamps @param {number} x @param {number} y @param {number} colour @param {number} strength 0..256 */
  stamp({ half, discs }, x, y, colour, strength) {
    const { pixels } = this;
    const left = Math.floor(x);
    const top = Math.floor(y);
    const { at, cover } = discs[Math.floor((y - top) * STEPS) * STEPS + Math.floor((x - left) * STEPS)];
    const red = colour & 0xff00ff;
    const green = colour & 0x00ff00;
    const solid = 0xff000000 | red | green;
    const corner = (top - half + MARGIN) * this.stride + left - half + MARGIN;
    for (let k = 0, n = at.length; k < n; k += 1) {
      const a = (cover[k] * strength) >> 8;
      const spot = corner + at[k];
      if (a >= 256) {
        pixels[spot] = solid;
        continue;
      }
      const under = pixels[spot];
      const rb = (Math.imul(under & 0xff00ff, 256 - a) + Math.imul(red, a)) >>> 8;
      const g = (Math.imul(under & 0x00ff00, 256 - a) + Math.imul(green, a)) >>> 8;
      pixels[spot] = 0xff000000 | (rb & 0xff00ff) | (g & 0x00ff00);
    }
  }
}

// A drawing order in which no class covers another: a shuffle, the same for the same number of points.
// Points placed on a map come after its `own` points, on top.
/** @param {number} n */
export function shuffled(n, own = n) {
  const order = Int32Array.from({ length: n }, (_, i) => i);
  let state = 12345;
  for (let i = n - 1; i > 0; i -= 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 4294967296) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return own < n ? Int32Array.from([...order.filter((i) => i < own), ...order.filter((i) => i >= own)]) : order;
}

/** Returns the radius of points: fewer are drawn larger. @param {number} n */
export function radiusFor(n) {
  return n < 600 ? 6 : n < 3000 ? 4.5 : n < 12000 ? 3 : n < 80000 ? 2 : 1.5;
}
