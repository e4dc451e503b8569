// Readers' findings on the case: a list, number keys for the study's labels, marks on the image.
import { discard, enqueue, post } from '../../../static/api.js';
import { moment } from '../../../static/format.js';
import { button, html, show } from '../../../static/view.js';
import { newest, save, use } from './drawing.js';
import { press } from './parts.js';
import { report } from './report.js';
import { isBox } from './tools.js';

/** Records a finding: for the drawn mask if there is one, else for the placed box or point, else for the point under
 * the pointer, else for the whole image.
 * @param {ReviewView} review @param {number} number of the label, from 1 */
export function record(review, number) {
  const { editor, detail, setup, picture, place } = review;
  const label = setup?.labels[number - 1];
  if (!detail || !picture) return;
  if (!label) return review.say(`This study has ${setup?.labels.length} finding labels; set them on the Study tab.`);
  if (editor.dirty) return save(review, label);
  const p = editor.cursor;
  const inside = p && p.x >= 0 && p.y >= 0 && p.x <= picture.w && p.y <= picture.h;
  const box = place.corners || (inside ? [p.x, p.y, p.x, p.y] : null);
  const { id } = detail;
  const body = { case: id, label, box, rating: review.rating() };
  return enqueue(async () => {
    if (!(await add(review, body))) return;
    remember(review, `finding, ${label}`, body, newest(review));
    if (review.detail?.id !== id) return;
    if (place.corners === box) place.clear(); // else the next one has already been placed
    review.flash(`Finding: ${label}${box ? '' : ' (whole image)'}`, 'unread');
  });
}

/** Adds a finding that was recorded, or removed, to the history.
 * @param {ReviewView} review @param {string} words @param {{case: number} & Page.Params} body of the finding
 * @param {number} finding @param {boolean} [removed] */
function remember(review, words, body, finding, removed = false) {
  const drop = () => takeBack(review, body.case, finding);
  const put = async () => {
    const done = await add(review, body);
    finding = newest(review);
    return done;
  };
  const [undo, redo] = removed ? [put, drop] : [drop, put];
  review.history.add({ words, case: body.case, undo, redo });
}

/** Adds a finding; false if it was refused. @param {ReviewView} review @param {{case: number} & Page.Params} body */
async function add(review, body) {
  await review.history.at(body.case);
  return Boolean(await review.changed(body.case, post('/api/review/finding', body)));
}

/** @param {ReviewView} review @param {number} id of the case @param {number} finding */
async function takeBack(review, id, finding) {
  await review.history.at(id);
  return Boolean(await review.changed(id, discard(`/api/review/finding/${finding}`)));
}

/** @param {ReviewView} review */
export function findingsPanel(review) {
  const { $ } = review;
  $('.rv-print').onclick = () => report(review);
  const remove = (/** @type {Answers.Finding} */ { id, label, comment, box, mask_version: drawn }) =>
    review.enqueue(async () => {
      const of = review.detail?.id || 0;
      if (!(await takeBack(review, of, id))) return;
      if (drawn || review.setup?.trial?.rated) return; // its location or rating is not known here
      remember(review, `finding removed, ${label}`, { case: of, label, comment, box }, id, true);
    });
  const row = (/** @type {Answers.Finding} */ f, /** @type {number} */ i) => {
    const version = review.detail?.masks?.find((m) => m.version === f.mask_version);
    const where = version ? `mask v${version.version}` : !f.box ? 'whole image' : isBox(f.box) ? 'box' : 'point';
    const own = f.reader === review.setup?.reader;
    const look = { class: 'rv-icon', title: 'Remove this finding', 'aria-label': `Remove ${f.label}` };
    return html`<li key=${f.id} title="${f.reader}, ${moment(f.created)}">
      <span class="rv-number">${i + 1}</span>
      ${button(f.label, () => version && use(review, version.id), { class: 'rv-found', disabled: !version })}
      <span class="dim">${where}</span>
      ${own && button('×', () => remove(f), look)}
    </li>`;
  };
  const key = (/** @type {string} */ name, /** @type {number} */ i) => {
    const title = `Record this finding (${i + 1})`;
    return button(html`<kbd>${i + 1}</kbd>${name}`, () => record(review, i + 1), { title });
  };
  const Rows = () => review.detail?.findings?.map(row);
  const Labels = () => review.setup?.labels.slice(0, 9).map(key);
  review.shows(() => {
    const { detail, setup } = review;
    $('.rv-findings-panel').hidden = !detail;
    $('.rv-print').hidden = Boolean(detail?.blind);
    press($('[data-act=place]'), review.place.active);
    $('[data-act=place]').hidden = $('.rv-labels').hidden = Boolean(setup?.trial && !setup.trial.marks);
    show($('.rv-labels'), Labels);
    show($('.rv-findings'), Rows);
  });
}
