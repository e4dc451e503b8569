// Outlines a lesion on an own image: by a box, in which it is found, or by a freehand line.
import { api } from '../../static/api.js';
import { orToast, sheet } from '../../static/dialogs.js';
import { action, el, fill, options } from '../../static/dom.js';
import { clamp } from '../../static/format.js';

/** @typedef {[number, number]} Point x and y as fractions of the image's width and height */
/** @typedef {{drop: string, file: string, outline: Point[], picture: string}} Outlined picture: its address */

const SIDE = 64; // pixels of a lesion's picture
const LEAST = 0.01; // of the image: a shorter drag is a click

/** Returns a square around a lesion, by default 1.5 times its size, as the search crops it. @param {Point[]} line
 * @param {number} wide @param {number} high of the image @param {number} [times] side, in sizes of the lesion */
export function patchOf(line, wide, high, times = 1.5) {
  const [xs, ys] = [line.map(([x]) => x * wide), line.map(([, y]) => y * high)];
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left, Math.max(...ys) - top];
  const side = Math.min(times * Math.max(width, height), wide, high);
  const from = (/** @type {number} */ middle, /** @type {number} */ whole) => clamp(middle - side / 2, 0, whole - side);
  return { x: from(left + width / 2, wide), y: from(top + height / 2, high), side };
}

/** Returns the address of a lesion's picture. @param {CanvasImageSource} image @param {Point[]} line
 * @param {number} wide @param {number} high of the image
 * @param {number} [x] @param {number} [y] position of the image in a larger one */
export function pictureOf(image, line, wide, high, x = 0, y = 0) {
  const canvas = el('canvas', { width: SIDE, height: SIDE });
  const { x: left, y: top, side } = patchOf(line, wide, high);
  canvas.getContext('2d')?.drawImage(image, x + left, y + top, side, side, 0, 0, SIDE, SIDE);
  return canvas.toDataURL();
}

/** Asks for the outline of a lesion on one of the dropped files. @param {string} drop @param {string[]} files
 * @param {(lesion: Outlined) => void} use */
export function outline(drop, files, use) {
  /** @type {Point[]} */
  let line = [];
  /** @type {Point[]} */
  let path = []; // points of the current drag
  const image = el('img', { alt: 'The image', draggable: 'false' });
  const shape = el('polygon', {});
  const box = el('polygon', { class: 'drag' });
  const svg = el('svg', { viewBox: '0 0 1 1', preserveAspectRatio: 'none' }, shape, box);
  const ways = options(Object.entries({ box: 'Box: finds the lesion inside', hand: 'Freehand outline' }));
  const way = el('select', { 'aria-label': 'How to outline' }, ways);
  const file = el('select', { 'aria-label': 'Image' }, options(files.map((name) => [name, name])));
  const words = el('p', { class: 'dim', role: 'status' });
  const done = action('Use this lesion', () => finish(), { class: 'main' });
  const draw = () => {
    const corners = (/** @type {Point[]} */ points) => points.map((point) => point.join()).join(' ');
    shape.setAttribute('points', corners(line));
    box.setAttribute('points', corners(path));
    done.disabled = line.length < 3;
  };
  const show = () => {
    line = path = [];
    image.src = `./api/medmix/dropped/${drop}/image.png?file=${encodeURIComponent(file.value)}`;
    fill(words, 'Drag a box round a lesion. If the outline is poor, draw it by hand.');
    draw();
  };
  const at = (/** @type {PointerEvent} */ event) => {
    const { left, top, width, height } = svg.getBoundingClientRect();
    return /** @type {Point} */ ([
      clamp((event.clientX - left) / width, 0, 1),
      clamp((event.clientY - top) / height, 0, 1),
    ]);
  };
  svg.addEventListener('pointerdown', (/** @type {any} */ event) => {
    svg.setPointerCapture(event.pointerId);
    path = [at(event)];
  });
  svg.addEventListener('pointermove', (/** @type {any} */ event) => {
    if (!path.length) return;
    const [[x, y], [u, v]] = [path[0], at(event)];
    if (way.value === 'hand') path.push([u, v]);
    else path = [[x, y], [u, y], [u, v], [x, v]]; // biome-ignore format: a box
    draw();
  });
  svg.addEventListener('pointerup', async () => {
    const drawn = path;
    path = [];
    const [[x0, x1], [y0, y1]] = [0, 1].map((i) => {
      const values = drawn.map((point) => point[i]);
      return [Math.min(...values), Math.max(...values)];
    });
    if (!drawn.length || x1 - x0 < LEAST || y1 - y0 < LEAST) return draw();
    if (way.value === 'hand') line = drawn;
    else {
      fill(words, 'Finding the lesion in the box…');
      const found = await orToast(api('/api/medmix/outline', { drop, file: file.value, box: [x0, y0, x1, y1] }));
      fill(words, found ? 'Found. Drag another box to try again.' : 'Not found: draw the outline by hand.');
      line = found?.outline || [];
    }
    draw();
  });
  const finish = () => {
    const picture = pictureOf(image, line, image.naturalWidth, image.naturalHeight);
    use({ drop, file: file.value, outline: line, picture });
    dialog.close();
  };
  file.onchange = show;
  show();
  const dialog = sheet('mm-outline', [
    el('h2', {}, 'Outline a lesion'),
    el('div', { class: 'row' }, files.length > 1 && file, way),
    el('div', { class: 'canvas' }, image, svg),
    words,
    el(
      'menu',
      {},
      action('Cancel', () => dialog.close(), { class: 'plain' }),
      done,
    ),
  ]);
}
