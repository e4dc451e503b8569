// The image's orientation in the view: flipped, turned by right angles. It affects only the view: masks, findings and
// lengths stay in the image's own frame.

/** @typedef {{x: number, y: number}} Spot */
/**
 * A point (x, y) of the image is at (a x + c y + e, b x + d y + f) of the displayed picture; e and f keep the
 * picture's corner at (0, 0). One of a, c is 0, and one of b, d.
 * @typedef {{a: number, b: number, c: number, d: number}} Turn
 */

/** @type {Turn} */
export const UPRIGHT = { a: 1, b: 0, c: 0, d: 1 };

/** The operations on the displayed picture: the new x and y. @type {Record<string, (turn: Turn) => Turn>} */
export const TURNS = {
  across: ({ a, b, c, d }) => ({ a: -a, b, c: -c, d }),
  down: ({ a, b, c, d }) => ({ a, b: -b, c, d: -d }),
  right: ({ a, b, c, d }) => ({ a: -b, b: a, c: -d, d: c }),
};
// -0 is the same orientation as 0.
for (const [name, turn] of Object.entries(TURNS))
  TURNS[name] = (before) => {
    const { a, b, c, d } = turn(before);
    return { a: a + 0, b: b + 0, c: c + 0, d: d + 0 };
  };

/** The displayed size of a picture of w x h. @param {Turn} turn @param {{w: number, h: number}} image */
export const seenSize = ({ a }, { w, h }) => (a ? { w, h } : { w: h, h: w });

/** @param {Turn} turn @param {{w: number, h: number}} image */
function shift({ a, b, c, d }, { w, h }) {
  return { e: (a < 0 ? w : 0) + (c < 0 ? h : 0), f: (b < 0 ? w : 0) + (d < 0 ? h : 0) };
}

/** Converts a point of the image to the displayed picture. @param {Turn} turn @param {{w: number, h: number}} image
 * @param {Spot} p */
export function toSeen(turn, image, { x, y }) {
  const { e, f } = shift(turn, image);
  return { x: turn.a * x + turn.c * y + e, y: turn.b * x + turn.d * y + f };
}

/** Converts a point p of the displayed picture to the image. @param {Turn} turn
 * @param {{w: number, h: number}} image @param {Spot} p @returns {Spot} */
export function fromSeen(turn, image, p) {
  const { e, f } = shift(turn, image);
  const [u, v] = [p.x - e, p.y - f];
  return { x: turn.a * u + turn.b * v, y: turn.c * u + turn.d * v };
}

/** Returns the canvas's transform for an image in pixel units.
 * @param {{scale: number, dx: number, dy: number, turn?: Turn}} view @param {{w: number, h: number}} image @param
 * {number} ratio pixels of the canvas in a CSS pixel @returns {[number, number, number, number, number, number]} */
export function matrix({ scale, dx, dy, turn = UPRIGHT }, image, ratio) {
  const s = scale * ratio;
  const { e, f } = shift(turn, image);
  return [s * turn.a, s * turn.b, s * turn.c, s * turn.d, s * e + dx * ratio, s * f + dy * ratio];
}

/** Returns the orientation in a few symbols; empty if the image is shown as stored. @param {Turn} turn */
export function inWords(turn) {
  const { a, b, c, d } = turn;
  if (a * d - b * c > 0) return b === 1 ? '↻ 90°' : a === -1 ? '↻ 180°' : b === -1 ? '↻ 270°' : '';
  if (a === -1) return '⇆ flipped';
  if (d === -1) return '⇅ flipped';
  return b === 1 ? '⇆ flipped, ↻ 90°' : '⇆ flipped, ↻ 270°';
}
