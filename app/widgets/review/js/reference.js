// Hides what reveals a case's label (the imported mask, a name such as "polyp-12") until the reader has decided or
// asks for it.

const WORDS = 'abnormal|normal|healthy|lesions?|polyps?|benign|malignant|cancer|tumou?rs?|diseased?|defects?|good|bad';
const NAMED = new RegExp(`(^|[^a-z])(${WORDS})([^a-z]|$)`, 'i');

/** Says whether a name reveals what the image shows. @param {string} name */
export const namesLabel = (name) => NAMED.test(name);

/** Whether a case, on screen or in the list, awaits its reader's first decision.
 * @param {ReviewView} review @param {Answers.CaseDetail | Answers.WorklistRow} one */
const undecided = ({ show, revealed }, one) =>
  !show.truth && !revealed.has(one.id) && !('mine' in one ? one.mine.some((r) => r.active) : one.decision);

/** Says whether masks that reveal the label are withheld, even if the case has none.
 * @param {ReviewView} review @param {Answers.CaseDetail} detail */
export const masksWait = (review, detail) => Boolean(detail.masks) && undecided(review, detail);

/** Returns the versions of the mask that may be shown now, newest first, numbered as if there were no others.
 * @param {ReviewView} review @param {Answers.CaseDetail} detail @returns {NonNullable<Answers.CaseDetail['masks']>} */
export function masksShown(review, detail) {
  if (!masksWait(review, detail)) return detail.masks || [];
  const own = (detail.masks || []).filter((m) => m.source !== 'import' && !m.reference);
  return own.map((m, i) => ({ ...m, version: own.length - i }));
}

/** @param {string} v version of the image's file */
const neutral = (v) => `Case ${v.slice(0, 6).toUpperCase()}`;

/** Returns the name that is shown. @param {ReviewView} review @param {Answers.CaseDetail | Answers.WorklistRow} one */
export const nameOf = (review, one) => (namesLabel(one.name) && undecided(review, one) ? neutral(one.v) : one.name);

/** Shows what was withheld of the case on screen. @param {ReviewView} review */
export async function reveal(review) {
  const { detail } = review;
  if (!detail) return;
  review.revealed.add(detail.id);
  review.list.renew(detail.id);
  await seenAnew(review, detail.id);
}

/** Shows the case on screen by its new state; does nothing if it was left meanwhile.
 * @param {ReviewView} review @param {number | undefined} [id] of the case that is meant */
export const seenAnew = (review, id = review.detail?.id) =>
  review.enqueue(async () => {
    const { detail } = review;
    if (detail && detail.id === id) await review.cases.enter(detail);
  });
