// Numbers beside the picture, before any training: how separable the classes are, what weak crops keep, what is near.
import { el, fill } from '../../static/dom.js';
import { fixed, percent, seconds } from '../../static/format.js';

/** @typedef {import('../../static/answers').Probe} Probe */

/** @param {number[][]} confusion by true class and predicted class */
function matrix(confusion) {
  const head = (/** @type {number} */ n) => el('span', { class: 'dim' }, `A${n}`);
  const rows = confusion.map((row, n) => {
    const sum = row.reduce((a, b) => a + b, 0) || 1;
    const shade = (/** @type {number} */ v) => `background:rgba(124,196,212,${(0.75 * v) / sum})`;
    return [head(n), row.map((v) => el('span', { style: shade(v) }, percent(v / sum, 0)))];
  });
  return el(
    'div',
    { class: 'matrix', style: `grid-template-columns: repeat(${confusion.length + 1}, auto)` },
    el('span', { class: 'dim' }, 'true \\ predicted'),
    confusion.map((_, n) => head(n)),
    rows,
  );
}

/** @param {Probe} r @returns {[string, string][]} */
function facts(r) {
  /** @type {[string, string][]} */
  const list = [
    ['Accuracy of a linear probe on the classes', `${percent(r.accuracy, 0)} (guessing ${percent(r.chance, 0)})`],
    ['Its accuracy on lesion or none', `${percent(r.lesion_accuracy, 0)} (guessing 50 %)`],
  ];
  if (r.survival != null) list.push(['A weak crop keeps, of a lesion', percent(r.survival, 0)]);
  if (r.lost != null) list.push(['Weak views that lose most of it', percent(r.lost, 0)]);
  if (!r.near) return [...list, ['Real lesions', `too few masks in ${r.study}`]];
  return [
    ...list,
    ['Real lesions', `${r.near.real} of ${r.study}`],
    ['Real lesions against normal', `AUROC ${fixed(r.near.auroc_real, 2)}`],
    ['Synthetic ones by the same line', `AUROC ${fixed(r.near.auroc_synthetic, 2)}`],
    ['Synthetic from real ones (normal patches: 1)', fixed(r.near.distance, 1)],
  ];
}

/** @param {HTMLElement} panel @param {Probe} r */
export function showProbe(panel, r) {
  const close = () => {
    panel.hidden = true;
  };
  const encoder = r.encoder === 'untrained' ? 'An untrained encoder' : r.encoder;
  fill(
    panel,
    el(
      'div',
      { class: 'top' },
      el('h2', {}, 'Before any training'),
      el('button', { 'aria-label': 'Close', onclick: close }, '✕'),
    ),
    r.words.map((w) => el('p', { class: w.kind }, w.text)),
    el(
      'div',
      { class: 'facts' },
      facts(r).map(([name, value]) => [el('span', { class: 'dim' }, name), el('span', { class: 'num' }, value)]),
    ),
    matrix(r.confusion),
    el('p', { class: 'dim' }, `${encoder}, ${r.images} images at 64 px, ${seconds(r.seconds)}`),
  );
  panel.dataset.done = 'yes';
}

/** @param {HTMLElement} panel */
export function awaitProbe(panel) {
  panel.hidden = false;
  delete panel.dataset.done;
  fill(panel, el('p', { class: 'dim' }, 'Looking at these settings through an encoder…'), el('progress'));
}
