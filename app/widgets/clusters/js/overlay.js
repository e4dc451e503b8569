// Overlays on the points: class means and radii, frozen centres, rings around points, the lasso.

import { isProjected } from './model.js';
import { css } from './palette.js';

/** @typedef {import('./plot.js').Plot} Plot */
/** @typedef {CanvasRenderingContext2D} Ink */

const RINGED = 1500; // more new images than this are only marked by colour

/** @param {Plot} plot */
export function drawOverlay(plot) {
  const { ink, map } = plot;
  ink.clearRect(0, 0, plot.width, plot.height);
  if (!map || !plot.visible) return;
  if (plot.marks && plot.colouring?.table) drawClasses(plot);
  if (plot.marks) drawCentres(plot);
  const { own, n } = map;
  if (n - own <= RINGED) for (let i = own; i < n; i += 1) ring(plot, i, '#ffffff', 1.3, 2.5);
  for (const i of plot.neighbours) ring(plot, i, '#ffffffb0', 1.2, 2.5);
  if (plot.hover >= 0) ring(plot, plot.hover, '#ffffff', 1.5, 2.5);
  if (plot.focus >= 0 && plot.visible[plot.focus]) {
    ring(plot, plot.focus, '#ffffff', 2, 4);
    ring(plot, plot.focus, '#7cc4d4', 2, 6.5);
  }
  if (plot.trail) drawTrail(plot.ink, plot.trail);
}

/** @param {Plot} plot @param {number} i @param {string} colour @param {number} width @param {number} gap */
function ring(plot, i, colour, width, gap) {
  if (!plot.visible[i]) return;
  const { x, y } = plot.screen(i);
  plot.ink.beginPath();
  plot.ink.arc(x, y, plot.radius + gap, 0, 2 * Math.PI);
  plot.ink.strokeStyle = colour;
  plot.ink.lineWidth = width;
  plot.ink.stroke();
}

/** Returns the mean and root mean square radius on the map of each category's visible points. @param {Plot} plot */
function classStats(plot) {
  const { current, visible, colouring, codes } = plot;
  const k = colouring?.table?.length || 0;
  const sums = Array.from({ length: k }, () => ({ n: 0, x: 0, y: 0, square: 0 }));
  for (let i = 0; i < visible.length; i += 1) {
    if (!visible[i]) continue;
    const s = sums[codes[i]];
    const [x, y] = [current[2 * i], current[2 * i + 1]];
    s.n += 1;
    s.x += x;
    s.y += y;
    s.square += x * x + y * y;
  }
  return sums.map(({ n, x, y, square }) => {
    const mean = { x: x / (n || 1), y: y / (n || 1) };
    return { n, ...mean, radius: Math.sqrt(Math.max(square / (n || 1) - mean.x ** 2 - mean.y ** 2, 0)) };
  });
}

/** Starts a closed path. @param {Ink} ink @param {import('./pane.js').Point[]} points */
function outline(ink, points) {
  ink.beginPath();
  for (const point of points) ink.lineTo(...point);
  ink.closePath();
}

/** @param {Plot} plot */
function drawClasses(plot) {
  const { ink } = plot;
  const table = plot.colouring?.table || [];
  const { scale, dx, dy } = plot.view();
  classStats(plot).forEach((s, c) => {
    if (s.n < 3 || plot.names[c] === '\u2013' || isProjected(plot.names[c])) return;
    const [x, y, r] = [s.x * scale + dx, -s.y * scale + dy, s.radius * scale];
    ink.lineWidth = 1;
    ink.strokeStyle = css(table[c]);
    ink.globalAlpha = 0.5;
    ink.setLineDash([3, 5]);
    ink.beginPath();
    ink.arc(x, y, r, 0, 2 * Math.PI);
    ink.stroke();
    ink.setLineDash([]);
    ink.globalAlpha = 1;
    cross(ink, x, y, 7, '#0d1013', 5);
    cross(ink, x, y, 7, css(table[c]), 2.2);
  });
}

/** @param {Ink} ink @param {number} x @param {number} y @param {number} size @param {string} colour @param {number} width */
function cross(ink, x, y, size, colour, width) {
  ink.strokeStyle = colour;
  ink.lineWidth = width;
  ink.beginPath();
  ink.moveTo(x - size, y);
  ink.lineTo(x + size, y);
  ink.moveTo(x, y - size);
  ink.lineTo(x, y + size);
  ink.stroke();
}

/** Draws the centres that pre-training pulled towards, as diamonds that move with the epochs. @param {Plot} plot */
function centresAt(plot) {
  const { map, time } = plot;
  const a = map.centres[Math.floor(time)];
  const b = map.centres[Math.ceil(time)];
  if (!a || !b) return [];
  const part = time - Math.floor(time);
  return a.map(([x, y], c) => [x + (b[c][0] - x) * part, y + (b[c][1] - y) * part]);
}
/** @param {Plot} plot */
function drawCentres(plot) {
  const { ink } = plot;
  const { scale, dx, dy } = plot.view();
  const all = centresAt(plot);
  all.forEach(([mx, my], c) => {
    const [x, y] = [mx * scale + dx, -my * scale + dy];
    outline(ink, [[x, y - 7], [x + 7, y], [x, y + 7], [x - 7, y]]); // biome-ignore format: a diamond
    ink.fillStyle = '#0d1013';
    ink.strokeStyle = '#ffffff';
    ink.lineWidth = 1.6;
    ink.fill();
    ink.stroke();
    ink.fillStyle = '#ffffff';
    ink.font = '600 12px system-ui, sans-serif';
    ink.textBaseline = 'middle';
    const name = all.length === 1 ? 'c\u2099' : `c${String.fromCharCode(0x2080 + c)}`;
    ink.strokeStyle = '#0d1013'; // a dark rim, so that the name can be read over points
    ink.lineWidth = 3.5;
    ink.strokeText(name, x + 10, y);
    ink.fillText(name, x + 10, y);
  });
}

/** @param {Ink} ink @param {import('./pane.js').Point[]} trail */
function drawTrail(ink, trail) {
  outline(ink, trail);
  ink.fillStyle = '#7cc4d422';
  ink.strokeStyle = '#7cc4d4';
  ink.lineWidth = 1.4;
  ink.fill();
  ink.stroke();
}
