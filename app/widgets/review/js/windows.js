// Window and level: the named windows, and the table that converts grey values for display.

/** @typedef {{centre: number, width: number}} Window */
/** @typedef {Window & {name: string, unit: 'HU' | 'range'}} Preset in Hounsfield units, or fractions of the range */

/** @type {(unit: 'HU' | 'range') => (row: [string, number, number]) => Preset} */
const preset =
  (unit) =>
  ([name, centre, width]) => ({ name, centre, width, unit });
/** @type {[string, number, number][]} */
const CT = [
  ['Soft tissue', 40, 400],
  ['Lung', -600, 1500],
  ['Bone', 400, 1800],
  ['Brain', 40, 80],
  ['Liver', 60, 160],
];
/** @type {[string, number, number][]} */
const ANY = [
  ['Dark parts', 0.22, 0.5],
  ['Bright parts', 0.75, 0.5],
  ['High contrast', 0.5, 0.45],
];

/** @param {boolean} ct whether the grey values are Hounsfield units */
export const windows = (ct) => (ct ? CT.map(preset('HU')) : ANY.map(preset('range')));

/** Converts a preset to the grey values of an image, which are stored as (value - offset) / gain.
 * @param {Preset} chosen @param {{full: Window, top: number, offset: number, gain: number}} picture @returns {Window} */
export function windowOf({ centre, width, unit }, { full, top, offset, gain }) {
  const window =
    unit === 'HU'
      ? { centre: (centre - offset) / gain, width: width / gain }
      : { centre: full.centre + (centre - 0.5) * full.width, width: width * full.width };
  return { ...window, centre: Math.min(window.centre, top) };
}

/** @type {{key: string, lut: Uint8ClampedArray}} the latest table */
const made = { key: '', lut: new Uint8ClampedArray() };

/** Returns the displayed value of each stored grey value: 0 below the window, 255 above it, linear between.
 * @param {Window} window @param {number} size how many grey values there are @param {boolean} invert */
export function lookup(window, size, invert) {
  const key = `${window.centre}/${window.width}/${size}/${invert}`;
  if (made.key === key) return made.lut;
  const lut = new Uint8ClampedArray(size);
  const lo = window.centre - window.width / 2;
  for (let i = 0; i < size; i += 1) {
    const v = (255 * (i - lo)) / window.width;
    lut[i] = invert ? 255 - v : v;
  }
  Object.assign(made, { key, lut });
  return lut;
}
