// Colour maps suitable for colour-blind readers, as 256 x RGB tables, and the fixed colours of lines.

/** @type {Record<string, string>} */
const ANCHORS = {
  inferno: '000004 1b0c41 4a0c6b 781c6d a52c60 cf4446 ed6925 fb9b06 f7d13d fcffa4',
  viridis: '440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725',
  cividis: '00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838',
  blue: '08131f 0b2a45 0f4270 155d9b 2279c0 4595d3 6fb0e2 9bcaee c7e2f7 f3f9fd',
  grey: '000000 1c1c1c 393939 555555 717171 8e8e8e aaaaaa c6c6c6 e3e3e3 ffffff',
};

export const MAPS = Object.keys(ANCHORS);

// Okabe and Ito's colours: distinguishable with any kind of colour vision.
export const LINES = {
  contour: '#ffffff',
  halo: 'rgba(0, 0, 0, .75)',
  lesion: '#56b4e9',
  other: '#cc79a7',
  edit: '#2fd6a3',
  roi: '#f0e442',
};

/** Returns 256 x RGB, linear between colours. @param {string} anchors */
function between(anchors) {
  const stops = anchors.split(' ').map((s) => [0, 2, 4].map((i) => parseInt(s.slice(i, i + 2), 16)));
  const out = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (stops.length - 1);
    const lo = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c += 1) out[3 * i + c] = stops[lo][c] + (at - lo) * (stops[lo + 1][c] - stops[lo][c]);
  }
  return out;
}

const TABLES = Object.fromEntries(MAPS.map((name) => [name, between(ANCHORS[name])]));

/** Returns 256 x RGB. @param {string} name one of MAPS; inferno for an unknown name */
export const table = (name) => TABLES[name] || TABLES.inferno;

/** Returns the map as a CSS background, from low to high. @param {string} name */
export const gradient = (name) =>
  `linear-gradient(to right, ${(ANCHORS[name] || ANCHORS.inferno).replace(/\w+/g, '#$&').replaceAll(' ', ', ')})`;
