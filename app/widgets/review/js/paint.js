// Draws the panes. All their data are already in the browser: no request, one frame.
// Written by hand because it was measured to be faster: 9 to 13 ms for a change at 256 pixels on a plain
// CPU, where Gradio's overlays, drawn by the server, take 50 to 280 ms. `python launch.py bench review` measures it.

import { LINES } from './colours.js';
import { placed } from './segment.js';
import { between, outline, ring, trace, unitOf, written } from './tools.js';
import { matrix, seenSize, UPRIGHT } from './view.js';

/** @typedef {import('./layers.js').Layer} Layer */
/** @typedef {import('./layers.js').Region} Region */
/** @typedef {import('./image.js').Picture} Picture */
/** @typedef {CanvasRenderingContext2D} Context */

/** The panes of each layout. @type {Record<string, string[]>} */
export const LAYOUTS = {
  one: ['overlay'],
  two: ['image', 'overlay'],
  three: ['image', 'overlay', 'mask'],
  compare: ['overlay', 'second'],
};

/** @param {ReviewView} review */
export function paint(review) {
  const { view, picture, show } = review;
  for (const { kind, context, canvas } of review.panes) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (!picture) continue;
    if (kind === 'nearest') {
      beside(context, review, picture);
      continue;
    }
    if (kind !== 'mask') picture.draw(context, view, show.window, show.invert);
    context.setTransform(...matrix(view, picture, devicePixelRatio));
    if (kind === 'mask') maskAlone(context, review, picture);
    const layer = { overlay: review.heat, second: review.second }[kind];
    if (layer) heat(context, layer, picture, review.outlines(layer), show.heat ? show.opacity : null);
    if (kind !== 'image') lines(context, review, picture);
    if (kind !== 'mask') marks(context, review);
    if (kind !== 'mask') drawing(context, review, picture);
    review.ruler.draw(context, review.detail?.spacing);
  }
}

/** Draws an image on a square canvas, with a heat map's outline and a lesion mask.
 * @param {Context} context @param {Picture} picture @param {Layer | null} layer @param {import('./layers.js').MaskLayer | null} lesion */
export function sketch(context, picture, layer, lesion) {
  const side = context.canvas.width / devicePixelRatio;
  const scale = side / Math.max(picture.w, picture.h);
  const lie = { scale, dx: (side - picture.w * scale) / 2, dy: (side - picture.h * scale) / 2 };
  picture.draw(context, lie, null, false);
  context.setTransform(...matrix(lie, picture, devicePixelRatio));
  if (layer) heat(context, layer, picture, true, null);
  if (lesion) outlined(context, lesion, picture, LINES.lesion);
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

/** @param {Context} context @param {Layer} layer @param {Picture} picture @param {boolean} contour
 * @param {number | null} opacity of the heat map, or null if only its outline is shown */
function heat(context, layer, picture, contour, opacity) {
  if (opacity !== null) {
    context.globalAlpha = opacity;
    context.imageSmoothingEnabled = true;
    context.drawImage(layer.canvas, 0, 0, picture.w, picture.h);
    context.globalAlpha = 1;
  }
  if (layer.hatch && (opacity !== null || contour)) context.drawImage(layer.hatch, 0, 0, picture.w, picture.h);
  if (contour && layer.contour) traceCells(context, layer.contour, layer.field, picture, LINES.contour);
}

/** Traces a path on a grid of w x h cells that covers the image. @param {Context} context @param {Path2D} path
 * @param {{w: number, h: number}} grid @param {Picture} picture @param {string} colour @param {number[]} [dash] */
function traceCells(context, path, { w, h }, picture, colour, dash) {
  context.save();
  context.scale(picture.w / w, picture.h / h);
  trace(context, path, colour, { dash });
  context.restore();
}

/** @param {Context} context @param {Region} mask @param {Picture} picture @param {string} colour @param {number[]} [dash] */
function outlined(context, { w, h, outline: { path, scale } }, picture, colour, dash) {
  traceCells(context, path, { w: w / scale, h: h / scale }, picture, colour, dash);
}

/** @param {Context} context @param {ReviewView} review @param {Picture} picture */
function lines(context, { lesion, other, roi, show, editor }, picture) {
  if (!show.inside && roi) outlined(context, roi, picture, LINES.roi, [5, 5]);
  if (show.mask === 'off' || editor.mask) return;
  if (lesion && show.mask === 'fill') {
    context.globalAlpha = 0.45;
    context.drawImage(lesion.canvas, 0, 0);
    context.globalAlpha = 1;
  }
  if (lesion) outlined(context, lesion, picture, LINES.lesion);
  if (other) outlined(context, other, picture, LINES.other, [6, 4]);
}

/** @param {Context} context @param {ReviewView} review @param {Picture} picture */
function maskAlone(context, { editor, lesion }, picture) {
  context.fillStyle = '#000';
  context.fillRect(0, 0, picture.w, picture.h);
  context.imageSmoothingEnabled = false;
  if (editor.mask) context.drawImage(editor.canvas, 0, 0);
  else if (lesion) context.drawImage(lesion.canvas, 0, 0);
}

/** Draws findings at a point or in a box, with their number in the list.
 * @param {Context} context @param {ReviewView} review */
function marks(context, { detail, place }) {
  place.draw(context);
  (detail?.findings || []).forEach(({ box }, i) => {
    if (!box) return;
    trace(context, outline(context, box), LINES.lesion);
    written(context, String(i + 1), { x: box[2], y: box[1] }, LINES.lesion);
  });
}

/** @param {Context} context @param {ReviewView} review @param {Picture} picture */
function drawing(context, review, picture) {
  const { mask, canvas, points, cursor, frame, tool, size } = review.editor;
  if (!mask) return;
  const unit = unitOf(context);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0);
  review.editor.near = 10 * unit;
  if (points.length) {
    const path = new Path2D();
    for (const { x, y } of cursor ? [...points, cursor] : points) path.lineTo(x, y);
    trace(context, path, LINES.edit);
    trace(context, ring(points[0], 4 * unit), LINES.edit);
  }
  if (frame) trace(context, outline(context, between(frame.a, frame.b, picture, 0)), LINES.edit, { dash: [4, 3] });
  for (const click of placed(review))
    trace(context, ring(click, 3.5 * unit), click.positive ? LINES.edit : '#fff', { width: 2.4 });
  if (cursor && (tool === 'brush' || tool === 'erase'))
    trace(context, ring(cursor, size / 2), tool === 'erase' ? '#fff' : LINES.edit, { width: 1.2 });
}
