// Text on the image: upright and of constant size, however the image is turned and zoomed.

const SIZE = 13; // CSS pixels of the text

/** @param {CanvasRenderingContext2D} context whose unit is an image pixel @param {string} text @param {{x: number, y:
 * number}} p in image pixels @param {{right: number, up: number, colour: string, halo?: string}} look right, up: from
 * p, in CSS pixels */
export function written(context, text, p, { right, up, colour, halo }) {
  const ratio = devicePixelRatio || 1;
  const at = context.getTransform().transformPoint(p);
  context.save();
  context.setTransform(ratio, 0, 0, ratio, at.x, at.y);
  context.font = `600 ${SIZE}px system-ui, sans-serif`;
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = 3.4;
    context.strokeText(text, right, -up);
  }
  context.fillStyle = colour;
  context.fillText(text, right, -up);
  context.restore();
}
