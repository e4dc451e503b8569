// Outlines a lesion on an own image: by a box, in which it is found, or by a freehand line.
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api } from '../../static/api.js';
import { orToast, sheet } from '../../static/dialogs.js';
import { el } from '../../static/dom.js';
import { clamp } from '../../static/format.js';
import { button, choices, given, html, show } from '../../static/view.js';
import { own } from './scene.js';

/** @typedef {[number, number]} Point x and y as fractions of the image's width and height */
/** @typedef {{drop: string, file: string, outline: Point[], picture: string}} Outlined picture: its address */

const SIDE = 64; // pixels of a lesion's picture
const LEAST = 0.01; // of the image: a shorter drag is a click
const DRAG = 'Drag a box round a lesion. If the outline is poor, draw it by hand.';

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

/** Asks for the outline of a lesion on one of the reader's own images. @param {(lesion: Outlined) => void} use */
export function outline(use) {
  const dialog = sheet('mm-outline', []);
  show(dialog, Outline, { use, close: () => dialog.close() });
}

/** @param {{use: (lesion: Outlined) => void, close: () => void}} props */
function Outline({ use, close }) {
  const { drop, files } = own.peek();
  const file = useSignal(files[0]);
  const way = useSignal('box');
  const line = useSignal(/** @type {Point[]} */ ([]));
  const path = useSignal(/** @type {Point[]} */ ([])); // points of the current drag
  const words = useSignal(DRAG);
  const image = useRef(/** @type {any} */ (null));
  /** @param {any} event @returns {Point} */
  const at = ({ currentTarget, clientX, clientY }) => {
    const { left, top, width, height } = currentTarget.getBoundingClientRect();
    return [clamp((clientX - left) / width, 0, 1), clamp((clientY - top) / height, 0, 1)];
  };
  const begin = (/** @type {any} */ event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    path.value = [at(event)];
  };
  const drag = (/** @type {PointerEvent} */ event) => {
    if (!path.value.length) return;
    const [[x, y], [u, v]] = [path.value[0], at(event)];
    path.value = way.value === 'hand' ? [...path.value, [u, v]] : [[x, y], [u, y], [u, v], [x, v]]; // biome-ignore format: a box
  };
  const end = async () => {
    const drawn = path.value;
    path.value = [];
    const [[x0, x1], [y0, y1]] = [0, 1].map((i) => {
      const values = drawn.map((point) => point[i]);
      return [Math.min(...values), Math.max(...values)];
    });
    if (!drawn.length || x1 - x0 < LEAST || y1 - y0 < LEAST) return;
    if (way.value === 'hand') {
      line.value = drawn;
      return;
    }
    words.value = 'Finding the lesion in the box…';
    const found = await orToast(api('/api/medmix/outline', { drop, file: file.value, box: [x0, y0, x1, y1] }));
    words.value = found ? 'Found. Drag another box to try again.' : 'Not found: draw the outline by hand.';
    line.value = /** @type {Point[]} */ (found?.outline || []);
  };
  const change = (/** @type {string} */ name) => {
    file.value = name;
    line.value = [];
    words.value = DRAG;
  };
  const finish = () => {
    const picture = pictureOf(image.current, line.value, image.current.naturalWidth, image.current.naturalHeight);
    use({ drop, file: file.value, outline: line.value, picture });
    close();
  };
  return html`<h2>Outline a lesion</h2>
    <div class="row">
      ${
        files.length > 1 &&
        html`<select aria-label="Image" onChange=${given(change)}>
          ${choices(files.map((name) => [name, name]))}
        </select>`
      }
      <select aria-label="How to outline" onChange=${given((to) => (way.value = to))}>
        ${choices(Object.entries({ box: 'Box: finds the lesion inside', hand: 'Freehand outline' }))}
      </select>
    </div>
    <div class="canvas">
      <img ref=${image} alt="The image" draggable=${false}
        src="./api/medmix/dropped/${drop}/image.png?file=${encodeURIComponent(file.value)}" />
      <svg viewBox="0 0 1 1" preserveAspectRatio="none" onPointerDown=${begin} onPointerMove=${drag} onPointerUp=${end}>
        <polygon points=${line.value.join(' ')} /><polygon class="drag" points=${path.value.join(' ')} />
      </svg>
    </div>
    <p class="dim" role="status">${words}</p>
    <menu>
      ${button('Cancel', close, { class: 'plain' })}
      ${button('Use this lesion', finish, { class: 'main', disabled: line.value.length < 3 })}
    </menu>`;
}
