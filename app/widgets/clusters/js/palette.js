// Colours on the dark ground: one per category, or a ramp for numbers. All are packed as 0xBBGGRR for the painter.
import { isProjected } from './model.js';

/** Of classes and categories, by name. @type {Record<string, string>} */
const NAMED = {
  'Normal, training': '#4a86c8',
  'Normal, held out': '#8fc1f0',
  'Normal, test': '#4fc3a8',
  'Abnormal, test': '#f4647f',
  'Unlabelled, test': '#a3adb8',
  normal: '#4fc3a8',
  abnormal: '#f4647f',
  unsure: '#e6bd6a',
  synthetic: '#f0a93c',
  unknown: '#a3adb8',
  train: '#4a86c8',
  holdout: '#8fc1f0',
  test: '#4fc3a8',
  flagged: '#f4647f',
  'not flagged': '#4a86c8',
  lesion: '#f4647f',
  'no lesion': '#4a86c8',
  'A\u2080, normal': '#4a86c8',
};
const PSEUDO = ['#f6dc7a', '#f0a93c', '#d9722c', '#b9503f', '#a0528c', '#7d5bb5', '#6c6fd1'];
const PLAIN = '#56b4e9 #e69f00 #2fb592 #cc79a7 #f0e442 #d5702e #8b93ff #c3cbd3 #9b6a3c #6fd3e0'.split(' ');
const PLACED = ['#ffffff', '#b6f0d0', '#ffd0ea', '#d8d0ff'];
export const NONE = '#4d5864';
const RAMP = ['#35478c', '#3f6fa8', '#4c97a8', '#7dba8d', '#c9cf6a', '#f5c04e', '#f4843f', '#e3403f'].map(parse);

/** @param {string} hex #rrggbb */
function parse(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
/** @param {number[]} rgb */
const pack = ([r, g, b]) => (b << 16) | (g << 8) | r;
/** @param {number} packed 0xBBGGRR */
export const css = (packed) => `rgb(${packed & 255} ${(packed >> 8) & 255} ${packed >> 16})`;

/** Returns a colour for each class: the same for the same name, and all different. @param {string[]} names */
export function categoryColours(names) {
  let next = 0;
  let placed = 0;
  return names.map((name) => {
    const pseudo = /^A([\u2081-\u2087]),/.exec(name);
    if (isProjected(name)) return pack(parse(PLACED[placed++ % PLACED.length]));
    const hex =
      name === '\u2013'
        ? NONE
        : NAMED[name] || (pseudo ? PSEUDO[pseudo[1].charCodeAt(0) - 0x2081] : PLAIN[next++ % PLAIN.length]);
    return pack(parse(hex));
  });
}

/** Returns the colour of a number. @param {number} t 0..1 */
export function ramp(t) {
  const x = Math.min(Math.max(t, 0), 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(x), RAMP.length - 2);
  return pack(RAMP[i].map((v, c) => Math.round(v + (RAMP[i + 1][c] - v) * (x - i))));
}
export const rampCss = () => `linear-gradient(to right, ${RAMP.map((c) => css(pack(c))).join(', ')})`;

/**
 * The colour of every point. For categories: their colours and numbers of points; for numbers: their range.
 * @typedef {object} Colouring
 * @property {Uint32Array} colours
 * @property {Uint8Array} visible
 * @property {Uint8Array | null} back points drawn below the others
 * @property {number[]} [table]
 * @property {Int32Array} [counts]
 * @property {number} [low]
 * @property {number} [high]
 * @property {number} [unknown]
 */

/** @param {Answers.Column} column @param {Set<string>} hidden names that are switched off
 * @returns {Colouring} */
export function colouring(column, hidden) {
  if (column.codes && column.names) {
    const { codes, names } = column;
    const table = categoryColours(names);
    const counts = new Int32Array(names.length);
    for (const code of codes) counts[code] += 1;
    const none = names.indexOf('\u2013');
    return {
      colours: Uint32Array.from(codes, (code) => table[code]),
      visible: Uint8Array.from(codes, (code) => (hidden.has(names[code]) ? 0 : 1)),
      back: none < 0 ? null : Uint8Array.from(codes, (code) => (code === none ? 1 : 0)),
      table,
      counts,
    };
  }
  const values = column.values || [];
  const known = /** @type {number[]} */ (values.filter((v) => v != null));
  const ends = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
  const [low, high] = column.name === 'percentile' ? [0, 100] : ends;
  const grey = pack(parse(NONE));
  const colours = Uint32Array.from(values, (v) => (v == null ? grey : ramp((v - low) / (high - low || 1))));
  const visible = Uint8Array.from(values, (v) => (v == null && hidden.has('unknown') ? 0 : 1));
  const back = Uint8Array.from(values, (v) => (v == null ? 1 : 0)); // unknown values are drawn below known ones
  return { colours, visible, back, low, high, unknown: values.length - known.length };
}
