// A cache of fetched objects for the next cases, limited in number and pixels.

const KEEP = 8;
const KEEP_PIXELS = 24_000_000;

/** @template {any[]} A @template M */
export class Shelf {
  /** @param {(...args: A) => Promise<M>} make fetches what is not cached yet; null and failures are not cached @param
   * {(made: NonNullable<M>) => number} [size] in pixels @param {number} [most] */
  constructor(make, size = () => 1, most = KEEP) {
    this.make = make;
    this.size = size;
    this.most = most;
    /** @type {Map<string, Promise<M>>} the latest request is at the end */
    this.held = new Map();
  }

  /** @param {string} key */
  has(key) {
    return this.held.has(key);
  }

  /** @param {string} key @param {Promise<M>} promise */
  put(key, promise) {
    this.held.set(key, promise);
    const drop = () => this.held.get(key) === promise && this.held.delete(key);
    promise.then((made) => made || drop(), drop);
    this.trim();
  }

  /** @param {string} key @param {A} args for `make` */
  get(key, ...args) {
    const held = this.held.get(key);
    if (held) {
      this.held.delete(key);
      this.held.set(key, held);
      return held;
    }
    const made = this.make(...args);
    this.put(key, made);
    return made;
  }

  async trim() {
    for (const key of this.held.keys()) {
      if (this.held.size <= this.most) break;
      this.held.delete(key);
    }
    let total = 0;
    for (const [key, promise] of [...this.held].reverse()) {
      const made = await promise.catch(() => null);
      total += made ? this.size(made) : 0;
      if (total > KEEP_PIXELS && this.held.size > 2) this.held.delete(key);
    }
  }
}
