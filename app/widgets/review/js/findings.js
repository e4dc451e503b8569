// What readers found on the case: a list that stays, number keys for the study's labels, marks on the image.
import { discard, enqueue, post } from '../../../static/api.js';
import { el, fill } from '../../../static/dom.js';
import { moment } from '../../../static/format.js';
import { save, use } from './drawing.js';
import { isBox } from './place.js';
import { report } from './report.js';

/** @typedef {import('./review_view.js').ReviewView} ReviewView */
/** @typedef {import('../../../static/answers').Finding} Finding */

/**
 * Records a finding: the drawn mask where there is one, else the box or point that was placed, else
 * the point under the pointer, else the whole image.
 * @param {ReviewView} review @param {number} number of the label, from 1
 */
export function record(review, number) {
  const { editor, detail, setup, picture, place } = review;
  const label = setup?.labels[number - 1];
  if (!detail || !picture) return;
  if (detail.blind) return review.say('Decide first; then findings can be recorded.');
  if (!label)
    return review.say(`This study has ${setup?.labels.length} labels of findings; they are set on the Study tab.`);
  if (editor.dirty) return save(review, label);
  const p = editor.cursor;
  const inside = p && p.x >= 0 && p.y >= 0 && p.x <= picture.w && p.y <= picture.h;
  const box = place.corners || (inside ? [p.x, p.y, p.x, p.y] : null);
  return enqueue(async () => {
    const answer = await post('/api/review/finding', { case: detail.id, label, box, rating: review.rating() });
    if (!answer.ok) return review.say(answer.error, 'bad');
    if (review.detail?.id !== detail.id) return;
    if (place.corners === box) place.clear(); // else the next one is placed already
    review.detail.findings = answer.findings;
    review.flash(`Finding: ${label}${box ? '' : ' (whole image)'}`, 'unread');
    review.redraw();
  });
}

/** Takes the tool in hand that places the next finding, or puts it away. @param {ReviewView} review */
export function takePlace(review) {
  if (!review.picture || review.detail?.blind) return;
  if (review.ruler.active) review.ruler.toggle();
  review.editor.tool = null;
  review.place.toggle();
  review.cursor();
  review.redraw();
}

/** @param {ReviewView} review */
export function findingsPanel(review) {
  const print = el(
    'button',
    { type: 'button', title: 'A report of this case, for the printer or a PDF', onclick: () => report(review) },
    'Report',
  );
  const box = el(
    'button',
    {
      type: 'button',
      title: "Place the next finding: drag for a box, click for a point (')",
      onclick: () => takePlace(review),
    },
    'Place',
  );
  const labels = el('div', { class: 'rv-head rv-labels' });
  const list = el('ul', { class: 'rv-findings' });
  const element = el(
    'section',
    {},
    el('div', { class: 'rv-head' }, el('h3', {}, 'Findings'), box, print),
    labels,
    list,
  );

  /** @param {Finding} f @param {number} i */
  function row(f, i) {
    const version = review.detail?.masks?.find((m) => m.version === f.mask_version);
    const where = version ? `mask v${version.version}` : !f.box ? 'whole image' : isBox(f.box) ? 'box' : 'point';
    const show = () => version && use(review, version.id);
    const remove = () =>
      enqueue(async () => {
        const answer = await discard(`/api/review/finding/${f.id}`);
        if (!answer.ok) return review.say(answer.error, 'bad');
        if (review.detail) review.detail.findings = answer.findings;
        review.redraw();
      });
    const title = `${f.reader}, ${moment(f.created)}`;
    return el(
      'li',
      { title },
      el('span', { class: 'rv-number' }, String(i + 1)),
      el('button', { type: 'button', class: 'rv-found', disabled: !version, onclick: show }, f.label),
      el('span', { class: 'dim' }, where),
      f.reader === review.setup?.reader &&
        el(
          'button',
          {
            type: 'button',
            class: 'rv-icon',
            title: 'Take it back',
            'aria-label': `Take back ${f.label}`,
            onclick: remove,
          },
          '×',
        ),
    );
  }
  return {
    element,
    reflect() {
      const { detail, setup } = review;
      element.hidden = !detail || Boolean(detail.blind);
      box.setAttribute('aria-pressed', String(review.place.active));
      const names = (setup?.labels || []).slice(0, 9);
      fill(
        labels,
        names.map((name, i) =>
          el(
            'button',
            { type: 'button', title: `Record this finding (${i + 1})`, onclick: () => record(review, i + 1) },
            el('kbd', {}, String(i + 1)),
            name,
          ),
        ),
      );
      fill(list, (detail?.findings || []).map(row));
    },
  };
}
