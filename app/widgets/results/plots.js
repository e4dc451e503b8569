// Figures of the Results tab, as SVG: the ROC curve, Dice by lesion size, the cases from the highest score down.
import { el, num, table, tr } from '../../static/dom.js';
import { fixed } from '../../static/format.js';
import { dom } from '../../static/view.js';

/** @param {number} x @param {number} y @param {string} what @param {string} [anchor] @param {Page.Attributes} [more] */
const text = (x, y, what, anchor = 'middle', more = {}) => el('text', { x, y, 'text-anchor': anchor, ...more }, what);

/** Draws the ROC curve with the operating point, which readers with the right can drag or move by the arrow keys.
 * @param {Answers.OperatingPoint} figures @param {((place: number, done: boolean) => void) |
 * null} moved to a place of the curve; done: it is released; null: it cannot be moved */
export function roc({ roc: curve, point }, moved) {
  const [left, bottom, side] = [36, 264, 250];
  const at = (/** @type {number[]} */ [x, y]) => [left + side * x, bottom - side * y];
  const line = (/** @type {string} */ d, /** @type {string} */ stroke, more = {}) =>
    el('path', { d, fill: 'none', stroke, 'stroke-width': 2, ...more });
  const tick = (/** @type {number} */ t) => [
    text(left + side * t, 280, String(t)),
    text(30, 268 - side * t, String(t), 'end'),
  ];
  const frame = [
    el('rect', { x: left, y: 14, width: side, height: side, fill: 'none', stroke: 'var(--line)' }),
    line('M36 264 L286 14', 'var(--line)', { 'stroke-dasharray': '3 4' }),
    [0, 0.5, 1].map(tick),
    text(161, 298, '1 − specificity'),
    text(10, 90, 'sensitivity', 'middle', { transform: 'rotate(-90 10 90)' }),
  ];
  const drawn = { viewBox: '0 0 300 300', role: 'group', 'aria-label': 'ROC with the operating point' };
  if (!curve || !point) return el('svg', drawn, frame, text(161, 139, 'needs normal and abnormal cases'));
  const path = curve.map((p, i) => `${i ? 'L' : 'M'}${at(p).join(' ')}`).join(' ');
  const nearest = (/** @type {number} */ x, /** @type {number} */ y) => {
    const far = curve.map((p) => Math.hypot(p[0] - x, p[1] - y));
    return far.indexOf(Math.min(...far));
  };
  let place = nearest(point[0], point[1]);
  const dot = dom`<circle class="rs-point" r="7" fill="var(--warn)" stroke="var(--panel)" stroke-width="2"
    tabindex=${moved && 0} role=${moved ? 'slider' : 'img'}
    aria-label="Operating point" aria-valuemin="0" aria-valuemax=${curve.length - 1} />`;
  const put = (/** @type {number[]} */ here) => {
    const [cx, cy] = at(here);
    for (const [key, value] of Object.entries({ cx, cy, 'aria-valuenow': place })) dot.setAttribute(key, String(value));
    dot.setAttribute('aria-valuetext', `sensitivity ${fixed(here[1], 2)}, specificity ${fixed(1 - here[0], 2)}`);
  };
  const move = (/** @type {number} */ to, /** @type {boolean} */ done) => {
    place = Math.min(Math.max(to, 0), curve.length - 1);
    put(curve[place]);
    moved?.(place, done);
  };
  put(point);
  const svg = el('svg', drawn, frame, line(path, 'var(--accent)'), dot);
  if (!moved) return svg;
  const dragged = (/** @type {PointerEvent} */ event, done = false) => {
    const box = svg.getBoundingClientRect();
    const unit = 300 / box.width;
    const x = ((event.clientX - box.left) * unit - left) / side;
    move(nearest(x, (bottom - (event.clientY - box.top) * unit) / side), done);
  };
  const held = (/** @type {PointerEvent} */ event) => dot.hasPointerCapture(event.pointerId);
  const arrow = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(place + by, false);
  };
  Object.assign(dot, {
    onpointerdown: (/** @type {PointerEvent} */ event) => dot.setPointerCapture(event.pointerId),
    onpointermove: (/** @type {PointerEvent} */ event) => held(event) && dragged(event),
    onpointerup: (/** @type {PointerEvent} */ event) => held(event) && dragged(event, true),
    onkeydown: arrow,
    onkeyup: (/** @type {KeyboardEvent} */ event) => event.key.startsWith('Arrow') && moved(place, true),
  });
  return svg;
}

/** Dice of each lesion by its size, and by groups of sizes. @param {Answers.Sizes} sizes */
export function diceBySize({ points, groups, of, against }) {
  if (!points.length) return el('p', { class: 'dim' }, 'No case has both a lesion mask and a heat map.');
  const largest = Math.max(...points.map((p) => p.size));
  const dots = points.map(({ size, dice, name }) => {
    const at = { cx: 34 + 250 * Math.sqrt(size / largest), cy: 144 - 130 * dice, r: 3 };
    const title = el('title', {}, `${name}: Dice ${fixed(dice, 2)}`);
    return el('circle', { ...at, fill: 'var(--accent)', 'fill-opacity': 0.7 }, title);
  });
  const rows = groups.map((g) => {
    const sizes = `${(100 * g.from).toFixed(2)} to ${(100 * g.to).toFixed(2)} %`;
    return tr([sizes, `${fixed(g.dice)} ± ${fixed(g.sd)}`, String(g.n)].map(num));
  });
  const drawn = of > points.length && `${points.length} of ${of} cases, drawn at random.`;
  return dom`<div class="rs-two rs-plot">
    <svg viewBox="0 0 300 170">
      <rect x="34" y="14" width="256" height="130" fill="none" stroke="var(--line)" />
      ${dots}${text(28, 20, '1', 'end')}${text(28, 148, '0', 'end')}
      ${text(162, 162, 'Lesion area, share of the image (root scale)')}
    </svg>
    <div>
      ${table(['Lesion size', 'Dice, mean ± SD', 'Cases'], rows)}
      <p class="dim num">${against[0].toUpperCase()}${against.slice(1)}, as the run outlines them.</p>
      ${drawn && el('p', { class: 'dim num' }, drawn)}
    </div>
  </div>`;
}

/** @param {Answers.PanelCase[]} cases @param {(id: number) => void} open */
export function predictions(cases, open) {
  const button = (/** @type {Answers.PanelCase} */ c) => {
    const title = `${c.name}: ${c.label}, ${c.flagged ? 'flagged' : 'not flagged'}`;
    return dom`<button type="button" class="rs-case ${c.right ? 'right' : 'wrong'}" title=${title} onclick=${() => open(c.id)}>
      <img src="/api/case/${c.id}/thumb.png?size=200" alt="" loading="lazy" />
      <span class="num">${fixed(c.score)} · ${c.percentile.toFixed(0)} %</span>
      <span class="dim">${c.right ? '✓' : '✗'} ${c.label}</span>
    </button>`;
  };
  return dom`<div class="rs-panel">${cases.map(button)}</div>`;
}
