// The choice of the detector whose results are shown.
import { day } from '../../../static/format.js';
import { Unscored } from '../../../static/plan.js';
import { reading } from '../../../static/store.js';
import { button, choices, given, html } from '../../../static/view.js';

/** The buttons of the detectors, and a menu of older runs. @param {{review: ReviewView}} props */
export function Detectors({ review }) {
  review.changes.value;
  reading.value; // pressed before the layers of another run have arrived
  const runs = review.setup?.runs || [];
  if (!runs.length) return html`<p class="dim unscored" role="status"><${Unscored} /></p>`;
  const first = runs.filter((r) => r.first);
  const rest = runs.filter((r) => !r.first);
  const press = (/** @type {Answers.ScoredRun} */ { id, title, name }) =>
    button(title, () => review.useRun(id), { title: `${name} (${id})`, 'aria-pressed': id === review.run });
  const words = (/** @type {Answers.ScoredRun} */ r) => `${r.name} · ${r.encoder || ''} · ${day(r.created)}`;
  const pick = given((id) => id && review.useRun(id));
  return html`${first.map(press)}
    ${
      rest.length > 0 &&
      html`<select aria-label="Another run" title="Another run" onChange=${pick}
        value=${rest.find((r) => r.id === review.run)?.id || ''}>
        ${choices([['', '…'], ...rest.map((r) => [r.id, words(r)])])}
      </select>`
    }`;
}
