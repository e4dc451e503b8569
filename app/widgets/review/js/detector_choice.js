// The choice of the detector whose results are shown.
import { el, fill } from '../../../static/dom.js';
import { day } from '../../../static/format.js';
import { unscored } from '../../../static/plan.js';
import { choice } from './parts.js';

/** The buttons of the detectors, and a menu of older runs. @param {import('./controls.js').Controls} side @param {ReviewView} review */
export function detectors(side, review) {
  const runs = review.setup?.runs || [];
  const pick = choice(
    'Detector',
    runs.filter((r) => r.first).map((r) => [r.id, r.title, `${r.name} (${r.id})`]),
    (id) => review.useRun(id),
    review.run,
  );
  /** @type {Element[]} */
  const nodes = [...pick.row.children];
  const rest = runs.filter((r) => !r.first);
  if (rest.length) {
    const all = el(
      'select',
      { 'aria-label': 'Another run', title: 'Another run', onchange: () => all.value && review.useRun(all.value) },
      el('option', { value: '' }, '…'),
      rest.map((r) => el('option', { value: r.id }, `${r.name} · ${r.encoder || ''} · ${day(r.created)}`)),
    );
    all.value = rest.find((r) => r.id === review.run)?.id || '';
    nodes.push(all);
  }
  fill(side.detectors, nodes.length ? nodes : unscored());
}
