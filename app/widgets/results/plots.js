// Drawings of the Results tab, as SVG: the ROC curve, Dice by lesion size, the cases from the highest score down.
import { el } from '../../static/dom.js';
import { fixed } from '../../static/format.js';
import { table } from './tables.js';

const text = (
  /** @type {number} */ x,
  /** @type {number} */ y,
  /** @type {string} */ what,
  anchor = 'middle',
  more = {},
) => el('text', { x, y, 'text-anchor': anchor, ...more }, what);

/** The ROC curve with the operating point. @param {import('../../static/answers').OperatingPoint} figures */
export function roc({ roc: curve, point }) {
  const [left, bottom, side] = [36, 264, 250];
  const at = (/** @type {number[]} */ [x, y]) => [left + side * x, bottom - side * y];
  const line = (/** @type {string} */ d, /** @type {string} */ stroke, more = {}) =>
    el('path', { d, fill: 'none', stroke, 'stroke-width': 2, ...more });
  const ticks = [0, 0.5, 1].map((t) => [
    text(left + side * t, 280, String(t)),
    text(30, 268 - side * t, String(t), 'end'),
  ]);
  const frame = [
    el('rect', { x: left, y: 14, width: side, height: side, fill: 'none', stroke: 'var(--line)' }),
    line('M36 264 L286 14', 'var(--line)', { 'stroke-dasharray': '3 4' }),
    ticks,
    text(161, 298, '1 − specificity'),
    text(10, 90, 'sensitivity', 'middle', { transform: 'rotate(-90 10 90)' }),
  ];
  const drawn = { viewBox: '0 0 300 300', role: 'img', 'aria-label': 'ROC with the operating point' };
  if (!curve || !point) return el('svg', drawn, frame, text(161, 139, 'needs normal and abnormal cases'));
  const path = curve.map((p, i) => `${i ? 'L' : 'M'}${at(p).join(' ')}`).join(' ');
  const [cx, cy] = at(point);
  return el(
    'svg',
    drawn,
    frame,
    line(path, 'var(--accent)'),
    el('circle', { cx, cy, r: 5.5, fill: 'var(--warn)', stroke: '#000' }),
  );
}

/** Dice of each lesion by its size, and by groups of sizes. @param {import('../../static/answers').Sizes} sizes */
export function diceBySize({ points, groups, of }) {
  if (!points.length) return el('p', { class: 'dim' }, 'No case has both a lesion mask and a heat map.');
  const largest = Math.max(...points.map((p) => p.size));
  const dots = points.map((p) =>
    el(
      'circle',
      {
        cx: 34 + 250 * Math.sqrt(p.size / largest),
        cy: 144 - 130 * p.dice,
        r: 3,
        fill: 'var(--accent)',
        'fill-opacity': 0.7,
      },
      el('title', {}, `${p.name}: Dice ${fixed(p.dice, 2)}`),
    ),
  );
  const rows = groups.map((g) => [
    `${(100 * g.from).toFixed(2)} to ${(100 * g.to).toFixed(2)} %`,
    `${fixed(g.dice)} ± ${fixed(g.sd)}`,
    String(g.n),
  ]);
  return el(
    'div',
    { class: 'rs-two rs-plot' },
    el(
      'svg',
      { viewBox: '0 0 300 170' },
      el('rect', { x: 34, y: 14, width: 256, height: 130, fill: 'none', stroke: 'var(--line)' }),
      dots,
      text(28, 20, '1', 'end'),
      text(28, 148, '0', 'end'),
      text(162, 162, 'lesion’s share of the image, root scale'),
    ),
    el(
      'div',
      {},
      table(
        ['Lesion size', 'Dice, mean ± sd', 'cases'],
        rows.map((row) => row.map((cell) => ({ cell, class: 'num' }))),
      ),
      of > points.length && el('p', { class: 'dim num' }, `${points.length} of ${of} cases, drawn by chance.`),
    ),
  );
}

/** @param {import('../../static/answers').PanelCase[]} cases @param {(id: number) => void} open */
export function predictions(cases, open) {
  const button = (/** @type {import('../../static/answers').PanelCase} */ c) =>
    el(
      'button',
      {
        class: `rs-case ${c.right ? 'right' : 'wrong'}`,
        title: `${c.name}: ${c.label}, ${c.flagged ? 'flagged' : 'not flagged'}`,
        onclick: () => open(c.id),
      },
      el('img', { src: `/api/case/${c.id}/thumb.png?size=200`, alt: '', loading: 'lazy' }),
      el('span', { class: 'num' }, `${fixed(c.score)} · ${c.percentile.toFixed(0)} %`),
      el('span', { class: 'dim' }, `${c.right ? '✓' : '✗'} ${c.label}`),
    );
  return el('div', { class: 'rs-panel' }, cases.map(button));
}
