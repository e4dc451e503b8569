// Draws the panes. All their data are already in the browser: no request, one frame.
// Written by hand because it was measured to be faster: 9 to 13 ms for a change at 256 pixels on a plain
// CPU, where Gradio's overlays, drawn by the server, take 50 to 280 ms. `python launch.py bench review` measures it.

import { LINES } from './colours.js';
import { placed } from './segment.js';
import { outline, written } from './tools.js';
import { matrix, seenSize, UPRIGHT } from './view.js';

/** @typedef {import('./layers.js').Layer} Layer */
/** @typedef {import('./layers.js').Region} Region */
/** @typedef {import('./image.js').Picture} Picture */
/** @typedef {CanvasRenderingContext2D} Context */

// The panes of each layout.
/** @type {Record<string, string[]>} */
export const LAYOUTS = {
  one: ['overlay'],
  two: ['image', 'overlay'],
  three: ['image', 'overlay', 'mask'],
  compare: ['overlay', 'second'],
};

/** @param {ReviewView} review */
export function paint(review) {
  const { view, picture, show } = review;
  for (const pane of review.panes) {
    const context = pane.context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, pane.canvas.width, pane.canvas.height);
    if (!picture) continue;
    if (pane.kind === 'nearest') {
      beside(context, review, picture);
      continue;
    }
    if (pane.kind !== 'mask') picture.draw(context, view, show.window, show.invert);
    const ratio = devicePixelRatio || 1;
    const scale = view.scale * ratio;
    context.setTransform(...matrix(view, picture, ratio));
    if (pane.kind === 'mask') maskAlone(context, review, picture);
    if (pane.kind === 'overlay') heat(context, review, review.heat, scale, picture);
    if (pane.kind === 'second') heat(context, review, review.second, scale, picture);
    if (pane.kind !== 'image') lines(context, review, scale, picture);
    if (pane.kind !== 'mask') marks(context, review, scale);
    if (pane.kind !== 'mask') drawing(context, review, scale);
    review.ruler.draw(context, scale, tracer(context, 1.6, scale), review.detail?.spacing);
  }
}

/** Draws an image on a square canvas, with a heat map's outline and a lesion mask.
 * @param {Context} context @param {Picture} picture @param {Layer | null} layer @param {import('./layers.js').MaskLayer | null} lesion */
export function sketch(context, picture, layer, lesion) {
  const ratio = devicePixelRatio || 1;
  const side = context.canvas.width / ratio;
  const scale = side / Math.max(picture.w, picture.h);
  const lie = { scale, dx: (side - picture.w * scale) / 2, dy: (side - picture.h * scale) / 2 };
  picture.draw(context, lie, null, false);
  context.setTransform(...matrix(lie, picture, ratio));
  heat(context, { show: { heat: false, opacity: 1 }, outlines: () => true }, layer, scale * ratio, picture);
  if (lesion) outlined(context, lesion, LINES.lesion, scale * ratio);
}

// The nearest normal image takes the position and size of the case's image, so that zoom and pan move both together.
/** @param {Context} context @param {ReviewView} review @param {Picture} picture */
function beside(context, { view, nearest, show }, picture) {
  if (!nearest) return;
  const near = nearest.picture;
  const scale = view.scale * Math.min(picture.w / near.w, picture.h / near.h);
  const { turn = UPRIGHT } = view;
  const [own, other] = [seenSize(turn, picture), seenSize(turn, near)];
  const middle = {
    dx: view.dx + (view.scale * own.w - scale * other.w) / 2,
    dy: view.dy + (view.scale * own.h - scale * other.h) / 2,
  };
  near.draw(context, { scale, turn, ...middle }, near.top === picture.top ? show.window : null, show.invert);
}

/** @param {Context} context @param {{show: {heat: boolean, opacity: number}, outlines: (layer: Layer) => boolean}} review
 * @param {Layer | null} layer @param {number} scale @param {Picture} picture */
function heat(context, review, layer, scale, picture) {
  if (!layer) return;
  const { show } = review;
  const contour = review.outlines(layer);
  if (show.heat) {
    context.globalAlpha = show.opacity;
    context.imageSmoothingEnabled = true;
    context.drawImage(layer.canvas, 0, 0, picture.w, picture.h);
    context.globalAlpha = 1;
  }
  if (layer.hatch && (show.heat || contour)) context.drawImage(layer.hatch, 0, 0, picture.w, picture.h);
  if (contour && layer.contour) {
    context.save();
    context.scale(picture.w / layer.field.w, picture.h / layer.field.h);
    trace(context, layer.contour, LINES.contour, 1.6, (scale * picture.w) / layer.field.w);
    context.restore();
  }
}

/** @param {Context} context @param {Path2D} path @param {string} colour @param {number} width @param {number} scale
 * @param {number[]} [dash] */
function trace(context, path, colour, width, scale, dash = []) {
  context.lineJoin = 'round';
  const ratio = devicePixelRatio || 1;
  context.setLineDash(dash.map((d) => (d * ratio) / scale));
  context.strokeStyle = LINES.halo;
  context.lineWidth = ((width + 1.6) * ratio) / scale;
  context.stroke(path);
  context.strokeStyle = colour;
  context.lineWidth = (width * ratio) / scale;
  context.stroke(path);
  context.setLineDash([]);
}

/** Draws lines of one width. @param {Context} context @param {number} width @param {number} scale @returns {import('./tools.js').Trace} */
const tracer = (context, width, scale) => (path, colour, dash) => trace(context, path, colour, width, scale, dash);

/** @param {Context} context @param {ReviewView} review @param {number} scale @param {Picture} picture */
function lines(context, review, scale, picture) {
  const { lesion, other, roi, show } = review;
  if (!show.inside && roi) {
    context.save();
    context.scale(picture.w / roi.w, picture.h / roi.h);
    outlined(context, roi, LINES.roi, (scale * picture.w) / roi.w, [5, 5]);
    context.restore();
  }
  if (show.mask === 'off' || review.editor.mask) return;
  if (lesion && show.mask === 'fill') {
    context.globalAlpha = 0.45;
    context.drawImage(lesion.canvas, 0, 0);
    context.globalAlpha = 1;
  }
  if (lesion) outlined(context, lesion, LINES.lesion, scale);
  if (other) outlined(context, other, LINES.other, scale, [6, 4]);
}

/** @param {Context} context @param {Region} mask @param {string} colour @param {number} scale @param {number[]} [dash] */
function outlined(context, mask, colour, scale, dash = []) {
  context.save();
  context.scale(mask.outline.scale, mask.outline.scale);
  trace(context, mask.outline.path, colour, 1.8, scale * mask.outline.scale, dash);
  context.restore();
}

/** @param {Context} context @param {ReviewView} review @param {Picture} picture */
function maskAlone(context, review, picture) {
  context.fillStyle = '#000';
  context.fillRect(0, 0, picture.w, picture.h);
  context.imageSmoothingEnabled = false;
  if (review.editor.mask) context.drawImage(review.editor.canvas, 0, 0);
  else if (review.lesion) context.drawImage(review.lesion.canvas, 0, 0);
}

/** Draws findings at a point or in a box, with their number in the list.
 * @param {Context} context @param {ReviewView} review @param {number} scale */
function marks(context, { detail, place }, scale) {
  place.draw(context, scale, tracer(context, 1.8, scale));
  (detail?.findings || []).forEach(({ box }, i) => {
    if (!box) return;
    trace(context, outline(box, scale), LINES.lesion, 1.8, scale);
    written(context, String(i + 1), { x: box[2], y: box[1] }, { right: 9, up: 4, colour: LINES.lesion });
  });
}

/** @param {Context} context @param {ReviewView} review @param {number} scale */
function drawing(context, review, scale) {
  const { editor } = review;
  if (!editor.mask) return;
  const ratio = devicePixelRatio || 1;
  context.imageSmoothingEnabled = false;
  context.drawImage(editor.canvas, 0, 0);
  editor.near = (10 * ratio) / scale;
  if (editor.points.length) {
    const path = new Path2D();
    editor.points.forEach((p, i) => path[i ? 'lineTo' : 'moveTo'](p.x, p.y));
    if (editor.cursor) path.lineTo(editor.cursor.x, editor.cursor.y);
    trace(context, path, LINES.edit, 1.6, scale);
    const first = new Path2D();
    first.arc(editor.points[0].x, editor.points[0].y, (4 * ratio) / scale, 0, 2 * Math.PI);
    trace(context, first, LINES.edit, 1.6, scale);
  }
  if (editor.frame) {
    const { a, b } = editor.frame;
    const path = new Path2D();
    path.rect(Math.min(a.x, b.x), Math.min(a.y, b.y), Math.abs(a.x - b.x), Math.abs(a.y - b.y));
    trace(context, path, LINES.edit, 1.6, scale, [4, 3]);
  }
  for (const { x, y, positive } of placed(review)) {
    const dot = new Path2D();
    dot.arc(x, y, (3.5 * ratio) / scale, 0, 2 * Math.PI);
    trace(context, dot, positive ? LINES.edit : '#fff', 2.4, scale);
  }
  if (editor.cursor && (editor.tool === 'brush' || editor.tool === 'erase')) {
    const ring = new Path2D();
    ring.arc(editor.cursor.x, editor.cursor.y, editor.size / 2, 0, 2 * Math.PI);
    trace(context, ring, editor.tool === 'erase' ? '#fff' : LINES.edit, 1.2, scale);
  }
}
