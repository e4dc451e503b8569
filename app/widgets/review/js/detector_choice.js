// The choice of the detector whose results are shown.
import { el, fill, options } from '../../../static/dom.js';
import { day } from '../../../static/format.js';
import { unscored } from '../../../static/plan.js';
import { choice } from './parts.js';

/** The buttons of the detectors, and a menu of older runs. @param {ReviewView} review */
export function detectors(review) {
  const row = review.$('.rv-detectors');
  const runs = review.setup?.runs || [];
  const first = runs.filter((r) => r.first);
  const rest = runs.filter((r) => !r.first);
  const button = (/** @type {typeof runs[number]} */ { id, title, name }) =>
    el('button', { type: 'button', 'data-key': id, title: `${name} (${id})` }, title);
  const named = rest.map((r) => /** @type {const} */ ([r.id, `${r.name} · ${r.encoder || ''} · ${day(r.created)}`]));
  const all = el('select', { 'aria-label': 'Another run', title: 'Another run' }, options([['', '…'], ...named]));
  all.onchange = () => all.value && review.useRun(all.value);
  all.value = rest.find((r) => r.id === review.run)?.id || '';
  fill(row, runs.length ? [first.map(button), rest.length > 0 && all] : unscored());
  choice(row, (id) => review.useRun(id))(review.run);
}
