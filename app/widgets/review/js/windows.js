// Window and level: the named windows, and the table that converts grey values for display.

/** @typedef {{centre: number, width: number}} Window */
/** @typedef {Window & {name: string, unit: 'HU' | 'range'}} Preset in Hounsfield units, or fractions of the range */

/** @type {Preset[]} */
const PRESETS = [
  { name: 'Soft tissue', centre: 40, width: 400, unit: 'HU' },
  { name: 'Lung', centre: -600, width: 1500, unit: 'HU' },
  { name: 'Bone', centre: 400, width: 1800, unit: 'HU' },
  { name: 'Brain', centre: 40, width: 80, unit: 'HU' },
  { name: 'Liver', centre: 60, width: 160, unit: 'HU' },
  { name: 'Dark parts', centre: 0.22, width: 0.5, unit: 'range' },
  { name: 'Bright parts', centre: 0.75, width: 0.5, unit: 'range' },
  { name: 'High contrast', centre: 0.5, width: 0.45, unit: 'range' },
];

/** @param {boolean} ct whether the grey values are Hounsfield units */
export const windows = (ct) => PRESETS.filter(({ unit }) => (unit === 'HU') === ct);

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
