// The choice of the detector whose results are shown.
import { el, fill, options } from '../../../static/dom.js';
import { day } from '../../../static/format.js';
import { unscored } from '../../../static/plan.js';
import { choice } from './parts.js';

/** The buttons of the detectors, and a menu of older runs. @param {import('./controls.js').Controls} side @param {ReviewView} review */
export function detectors(side, review) {
  const runs = review.setup?.runs || [];
  /** @type {[string, string, string][]} */
  const first = runs.filter((r) => r.first).map((r) => [r.id, r.title, `${r.name} (${r.id})`]);
  const pick = choice('Detector', first, (id) => review.useRun(id), review.run);
  /** @type {Element[]} */
  const nodes = [...pick.row.children];
  const rest = runs.filter((r) => !r.first);
  if (rest.length) {
    const named = rest.map((r) => /** @type {const} */ ([r.id, `${r.name} · ${r.encoder || ''} · ${day(r.created)}`]));
    const all = el('select', { 'aria-label': 'Another run', title: 'Another run' }, options([['', '…'], ...named]));
    all.onchange = () => all.value && review.useRun(all.value);
    all.value = rest.find((r) => r.id === review.run)?.id || '';
    nodes.push(all);
  }
  fill(side.detectors, nodes.length ? nodes : unscored());
}
