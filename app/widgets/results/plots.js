// Figures of the Results tab, as SVG: the ROC curve, Dice by lesion size, the cases from the highest score down.
import { fixed } from '../../static/format.js';
import { button, html, tableOf } from '../../static/view.js';
import { num } from './tables.js';

/** @param {number} x @param {number} y @param {unknown} what @param {string} [anchor] @param {string} [transform] */
const text = (x, y, what, anchor = 'middle', transform) =>
  html`<text x=${x} y=${y} text-anchor=${anchor} transform=${transform}>${what}</text>`;

/** Returns the index of the point of a curve nearest to (x, y).
 * @param {number[][]} curve @param {number} x @param {number} y */
function nearest(curve, x, y) {
  const far = curve.map((p) => Math.hypot(p[0] - x, p[1] - y));
  return far.indexOf(Math.min(...far));
}

/** The ROC curve with the operating point, which readers with the right can drag or move by the arrow keys.
 * @param {{figures: Answers.OperatingPoint, place: number | null,
 * moved: ((place: number, done: boolean) => void) | null}} props
 * place: of the curve, while the point is moved; moved: null if it cannot be; done: it is released */
export function Roc({ figures: { roc: curve, point }, place, moved }) {
  const [left, bottom, side] = [36, 264, 250];
  const at = (/** @type {number[]} */ [x, y]) => [left + side * x, bottom - side * y];
  const frame = html`
    <rect x=${left} y="14" width=${side} height=${side} fill="none" stroke="var(--line)" />
    <path d="M36 264 L286 14" stroke="var(--line)" stroke-width="2" stroke-dasharray="3 4" />
    ${[0, 0.5, 1].map((t) => [text(left + side * t, 280, t), text(30, 268 - side * t, t, 'end')])}
    ${text(161, 298, '1 − specificity')}${text(10, 90, 'sensitivity', 'middle', 'rotate(-90 10 90)')}`;
  const drawn = { viewBox: '0 0 300 300', role: 'group', 'aria-label': 'ROC with the operating point' };
  if (!curve || !point)
    return html`<svg ...${drawn}>${frame}${text(161, 139, 'needs normal and abnormal cases')}</svg>`;
  const path = curve.map((p, i) => `${i ? 'L' : 'M'}${at(p).join(' ')}`).join(' ');
  const now = place ?? nearest(curve, point[0], point[1]);
  const here = place === null ? point : curve[place];
  const [cx, cy] = at(here);
  const dragged = (/** @type {any} */ event, done = false) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = event.currentTarget.ownerSVGElement.getBoundingClientRect();
    const unit = 300 / box.width;
    const x = ((event.clientX - box.left) * unit - left) / side;
    moved?.(nearest(curve, x, (bottom - (event.clientY - box.top) * unit) / side), done);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    moved?.(Math.min(Math.max(now + by, 0), curve.length - 1), false);
  };
  const moves = moved && {
    tabindex: 0,
    onPointerDown: (/** @type {any} */ event) => event.currentTarget.setPointerCapture(event.pointerId),
    onPointerMove: dragged,
    onPointerUp: (/** @type {any} */ event) => dragged(event, true),
    onKeyDown: pressed,
    onKeyUp: (/** @type {KeyboardEvent} */ event) => event.key.startsWith('Arrow') && moved(now, true),
  };
  return html`<svg ...${drawn}>
    ${frame}<path d=${path} fill="none" stroke="var(--accent)" stroke-width="2" />
    <circle class="rs-point" cx=${cx} cy=${cy} r="7" fill="var(--warn)" stroke="var(--panel)" stroke-width="2"
      ...${moves} role=${moved ? 'slider' : 'img'} aria-label="Operating point"
      aria-valuemin="0" aria-valuemax=${curve.length - 1} aria-valuenow=${now}
      aria-valuetext="sensitivity ${fixed(here[1], 2)}, specificity ${fixed(1 - here[0], 2)}" />
  </svg>`;
}

/** Dice of each lesion by its size, and by groups of sizes. @param {Answers.Sizes} sizes */
export function diceBySize({ points, groups, of, against }) {
  if (!points.length) return html`<p class="dim">No case has both a lesion mask and a heat map.</p>`;
  const largest = Math.max(...points.map((p) => p.size));
  const dots = points.map(({ size, dice, name }) => {
    const cx = 34 + 250 * Math.sqrt(size / largest);
    return html`<circle cx=${cx} cy=${144 - 130 * dice} r="3" fill="var(--accent)" fill-opacity="0.7">
      <title>${name}: Dice ${fixed(dice, 2)}</title>
    </circle>`;
  });
  const rows = groups.map((g) => {
    const sizes = `${(100 * g.from).toFixed(2)} to ${(100 * g.to).toFixed(2)} %`;
    return html`<tr>${num(sizes)}${num(`${fixed(g.dice)} ± ${fixed(g.sd)}`)}${num(g.n)}</tr>`;
  });
  const drawn = of > points.length && `${points.length} of ${of} cases, drawn at random.`;
  return html`<div class="rs-two rs-plot">
    <svg viewBox="0 0 300 170">
      <rect x="34" y="14" width="256" height="130" fill="none" stroke="var(--line)" />
      ${dots}${text(28, 20, '1', 'end')}${text(28, 148, '0', 'end')}
      ${text(162, 162, 'Lesion area, share of the image (root scale)')}
    </svg>
    <div>
      ${tableOf(['Lesion size', 'Dice, mean ± SD', 'Cases'], rows)}
      <p class="dim num">${against[0].toUpperCase()}${against.slice(1)}, as the run outlines them.</p>
      ${drawn && html`<p class="dim num">${drawn}</p>`}
    </div>
  </div>`;
}

/** @param {Answers.PanelCase[]} cases @param {(id: number) => void} open */
export function predictions(cases, open) {
  const one = (/** @type {Answers.PanelCase} */ c) => {
    const title = `${c.name}: ${c.label}, ${c.flagged ? 'flagged' : 'not flagged'}`;
    const content = html`<img src="./api/case/${c.id}/thumb.png?size=200" alt="" loading="lazy" />
      <span class="num">${fixed(c.score)} · ${c.percentile.toFixed(0)} %</span>
      <span class="dim">${c.right ? '✓' : '✗'} ${c.label}</span>`;
    return button(content, () => open(c.id), { class: `rs-case ${c.right ? 'right' : 'wrong'}`, title });
  };
  return html`<div class="rs-panel">${cases.map(one)}</div>`;
}
