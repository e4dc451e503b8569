// Paints points directly into pixels, without paths or sprites: 50,000 take a few milliseconds without a graphics card.
const GROUND = 0xff13100d; // #0d1013, opaque, little-endian
const STEPS = 4; // stamps at quarter pixels, so that slow motion does not jump

/** @typedef {ReturnType<typeof stamps>} Stamps */

// Discs of `radius` at STEPS x STEPS offsets. Each is a list of the pixels it touches: their distance from the
// disc's corner in an image of that width, and their coverage, 1..256.
/** @param {number} radius @param {number} width */
function stamps(radius, width) {
  const side = 2 * Math.ceil(radius) + 2;
  const discs = [];
  for (let oy = 0; oy < STEPS; oy += 1) {
    for (let ox = 0; ox < STEPS; ox += 1) {
      const touched = [];
      const cx = side / 2 - 0.5 + (ox + 0.5) / STEPS;
      const cy = side / 2 - 0.5 + (oy + 0.5) / STEPS;
      for (let y = 0; y < side; y += 1) {
        for (let x = 0; x < side; x += 1) {
          const d = Math.hypot(x + 0.5 - cx, y + 0.5 - cy);
          const cover = Math.round(256 * Math.min(Math.max(radius + 0.5 - d, 0), 1));
          if (cover) touched.push({ at: y * width + x, x, y, cover });
        }
      }
      discs.push({
        at: Int32Array.from(touched, (t) => t.at),
        x: Int32Array.from(touched, (t) => t.x),
        y: Int32Array.from(touched, (t) => t.y),
        cover: Int32Array.from(touched, (t) => t.cover),
      });
    }
  }
  return { side, half: side / 2, discs };
}

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { alpha: false }));
    this.canvas = canvas;
    this.image = this.context.createImageData(1, 1);
    this.pixels = new Uint32Array(0); // of the image; empty before the size is known
    /** @type {Map<number, Stamps>} by radius, for one width */
    this.made = new Map();
    this.stampWidth = 0;
    /** @type {Int32Array} */
    this.order = new Int32Array(0);
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    if (this.pixels.length && this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {Float32Array | null} at x, y of all points in map units @param {{scale: number, dx: number, dy: number}}
   * view to pixels @param {{colours: Uint32Array, visible: Uint8Array, selected: Uint8Array | null, radius: number,
   * rim: boolean, order: Int32Array, shade?: number}} points `selected`: null if none is, then all are bright */
  paint(at, view, { colours, visible, selected, radius, rim, order, shade = 1 }) {
    this.order = order;
    this.pixels.fill(GROUND);
    if (at) {
      if (selected) {
        this.pass(at, view, colours, visible, selected, 0, radius, false, 0.22 * shade);
        this.pass(at, view, colours, visible, selected, 1, radius, rim, 1);
      } else {
        this.pass(at, view, colours, visible, null, 0, radius, rim, shade);
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** @param {Float32Array} at @param {{scale: number, dx: number, dy: number}} view @param {Uint32Array} colours
   * @param {Uint8Array} visible @param {Uint8Array | null} selected @param {number} wanted @param {number} radius
   * @param {boolean} rim @param {number} strength */
  pass(at, { scale, dx, dy }, colours, visible, selected, wanted, radius, rim, strength) {
    const { width, height } = this.canvas;
    const inner = this.stamps(radius);
    const outer = rim ? this.stamps(radius + 1) : null;
    const s = Math.round(256 * strength);
    const edge = radius + 3;
    const { order } = this;
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
    const { width } = this.canvas;
    if (this.stampWidth !== width) {
      this.made = new Map();
      this.stampWidth = width;
    }
    const key = Math.round(radius * 4) / 4;
    const kept = this.made.get(key) || stamps(key, width);
    this.made.set(key, kept);
    return kept;
  }

  /** @param {Stamps} stamps @param {number} x @param {number} y @param {number} colour @param {number} strength 0..256 */
  stamp({ side, half, discs }, x, y, colour, strength) {
    const { pixels } = this;
    const { width, height } = this.canvas;
    const left = Math.floor(x);
    const top = Math.floor(y);
    const disc = discs[Math.floor((y - top) * STEPS) * STEPS + Math.floor((x - left) * STEPS)];
    const { at, cover } = disc;
    const red = colour & 0xff00ff;
    const green = colour & 0x00ff00;
    const solid = 0xff000000 | red | green;
    const x0 = left - half;
    const y0 = top - half;
    const corner = y0 * width + x0;
    const inside = x0 >= 0 && y0 >= 0 && x0 + side <= width && y0 + side <= height;
    for (let k = 0, n = at.length; k < n; k += 1) {
      if (!inside) {
        const px = x0 + disc.x[k];
        const py = y0 + disc.y[k];
        if (px < 0 || px >= width || py < 0 || py >= height) continue;
      }
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
