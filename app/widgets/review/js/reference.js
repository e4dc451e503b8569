// What gives a case's label away stays out of sight until the reader has decided, unless it is asked for: the imported mask,
// and a name such as "polyp-12".

/** @typedef {import('./review_view.js').ReviewView} ReviewView */
/** @typedef {import('../../../static/answers').CaseDetail} CaseDetail */

const WORDS = 'abnormal|normal|healthy|lesions?|polyps?|benign|malignant|cancer|tumou?rs?|diseased?|defects?|good|bad';
const NAMED = new RegExp(`(^|[^a-z])(${WORDS})([^a-z]|$)`, 'i');

/** Whether a name says what the image shows. @param {string} name */
export const namesLabel = (name) => NAMED.test(name);

/** Whether the case waits for its reader's first decision. @param {ReviewView} review @param {CaseDetail} detail */
const undecided = ({ show, revealed }, detail) =>
  !show.truth && !revealed.has(detail.id) && !detail.mine.some((r) => r.active);

/** Whether the imported mask is held back. @param {ReviewView} review @param {CaseDetail} detail */
export const maskWaits = (review, detail) => undecided(review, detail) && detail.masks?.[0]?.source === 'import';

/** @param {string} v the mark of the image's file */
const neutral = (v) => `Case ${v.slice(0, 6).toUpperCase()}`;

/** The name that stands above the image. @param {ReviewView} review @param {CaseDetail} detail */
export const nameOf = (review, detail) =>
  namesLabel(detail.name) && undecided(review, detail) ? neutral(detail.v) : detail.name;

/** The name in the worklist. @param {ReviewView} review @param {import('../../../static/answers').WorklistRow} row */
export const rowName = ({ show, revealed }, row) =>
  namesLabel(row.name) && !show.truth && !revealed.has(row.id) && !row.decision ? neutral(row.v) : row.name;

/** Shows what was held back of the case on screen. @param {ReviewView} review */
export async function reveal(review) {
  const { detail } = review;
  if (!detail) return;
  review.revealed.add(detail.id);
  review.list.renew(detail.id);
  await seenAnew(review, detail.id);
}

/** The case on screen as it is to be shown from here on; one that has gone meanwhile does not come back.
 * @param {ReviewView} review @param {number | undefined} [id] of the case that is meant */
export const seenAnew = (review, id = review.detail?.id) =>
  review.enqueue(async () => {
    const { detail } = review;
    if (detail && detail.id === id) await review.cases.enter(detail);
  });
