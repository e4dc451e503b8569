// What a reading session came to: time for each case, agreement, operating point.
import { get } from '../../../static/api.js';
import { stage } from '../../../static/dialogs.js';
import { el } from '../../../static/dom.js';
import { against, figures, planted } from './session_figures.js';
import { printSession } from './session_print.js';

/** @param {import('./review_view.js').ReviewView} review @param {number} session */
export async function showSummary(review, session) {
  const found = await get(`/api/reading/${session}/summary`);
  if (!found.ok) return review.say(found.error, 'bad');
  const whose = found.session.reader === review.setup?.reader ? 'Your' : `${found.session.reader}’s`;
  const dialog = el('dialog', { class: 'ask widget rv-over', onclose: () => dialog.remove() });
  dialog.append(
    el('h2', {}, 'Reading session'),
    figures(found, whose),
    el('p', { class: 'dim' }, against(found)),
    planted(found, whose === 'Your' ? 'You' : found.session.reader) || '',
    el(
      'menu',
      {},
      el(
        'button',
        {
          type: 'button',
          class: 'plain',
          title: 'A report of this session, for the printer or a PDF',
          onclick: () => printSession(review, session),
        },
        'Report',
      ),
      el('button', { type: 'button', class: 'main', onclick: () => dialog.close() }, 'Close'),
    ),
  );
  stage().append(dialog);
  dialog.showModal();
}
