// Decisions: stored before the next case appears, undone across cases. All in one promise chain.
import { get, idle, post } from '../../../static/api.js';
import { confirm } from '../../../static/dialogs.js';
import { acts } from '../../../static/store.js';
import { DECISIONS } from './parts.js';
import { stored } from './stored.js';

const TITLE = /** @type {Record<Answers.Decision, string>} */ (Object.fromEntries(DECISIONS));

/** Returns what the reader saw when deciding, for the audit trail. @param {ReviewView} review */
function shown(review) {
  const { show, detail, heat } = review;
  if (!detail || detail.blind) return { blind: true };
  return {
    run: review.run,
    threshold: heat ? heat.level : null,
    heat: show.heat && Boolean(heat),
    contour: review.outlines(heat),
    opacity: show.opacity,
    mask: show.mask,
    mask_version: review.maskId,
    layout: show.layout,
  };
}

const HASTY = 1000; // milliseconds after a decision during which a different one on the same case needs confirmation

/** A second decision on the same case within a second is more often a slip than a change of mind.
 * @param {ReviewView} review @param {Answers.Decision} decision @param {number} at */
async function meant({ last, detail }, decision, at) {
  if (!last || last.case !== detail?.id || last.decision === decision || at - last.at > HASTY) return true;
  const [was, now] = [TITLE[last.decision], TITLE[decision]];
  const question = `You said “${was}” less than a second ago, and this is still the same case. Change it to “${now}”?`;
  return confirm(question, `Change to ${now}`, `Keep ${was}`);
}

/** @param {ReviewView} review @param {Answers.Decision} decision */
export function decide(review, decision) {
  if (!review.detail) return null; // no decision on a case that is not on screen yet
  const at = performance.now();
  const lost = `“${TITLE[decision]}” was not stored: another list was opened first.`;
  const work = async () => {
    const { detail, run } = review;
    if (!detail || !(await meant(review, decision, at))) return;
    const answer = await stored(review, {
      case: detail.id,
      decision,
      comment: review.comment(),
      run,
      shown: shown(review),
      seconds: (performance.now() - review.since) / 1000,
      list: review.list.params(),
      adjudication: review.adjudicating || undefined,
      rating: review.rating(),
    });
    if (!answer.ok) return review.say(answer.error, 'bad');
    const { next } = answer;
    const stays = next?.id === detail.id;
    const reading = stays && run ? next.readings?.[run] : null;
    const seen = reading ? { percentile: reading.percentile, flagged: Number(reading.flagged) } : {};
    review.put({ last: { case: detail.id, decision, at } });
    const again = (/** @type {'undo' | 'redo'} */ which) => () => undoOrRedo(review, which);
    review.history.add({ words: TITLE[decision], case: detail.id, undo: again('undo'), redo: again('redo') });
    review.list.decided(detail.id, decision, seen);
    review.marked();
    if (next) await review.cases.enter(next, answer.ahead);
    else {
      await review.cases.fetch(detail.id);
      review.say('That was the last case of this list.', 'good');
    }
    review.flash(`${TITLE[decision]}${stays ? ' · First decision saved. AI result shown' : ''}`, decision);
  };
  return review.enqueue(work, () => review.say(lost, 'bad'));
}

/** Goes to the next or previous case of the list. @param {ReviewView} review @param {{back?: boolean, unread?: boolean}} [way] */
export function step(review, { back = false, unread = false } = {}) {
  return review.enqueue(async () => {
    const params = {
      ...review.list.params(),
      case: review.detail?.id || 0,
      back: Number(back),
      unread: Number(unread),
    };
    let found = await get('/api/review/step', params);
    if (found.ok && !found.case && unread) found = await get('/api/review/step', { ...params, case: 0 });
    if (!found.ok) return review.say(found.error, 'bad');
    const none = unread ? 'Every case in this list is decided.' : `This is the ${back ? 'first' : 'last'} case.`;
    if (!found.case) return review.say(none);
    await review.cases.enter(found.case, found.ahead);
  });
}

/** Reloads list and case after changes in another window; a drawing in progress stays. If the reader does something
 * meanwhile, nothing changes and it resolves to false.
 * @param {ReviewView} review @returns {Promise<boolean>} */
export async function again(review) {
  await idle();
  const { detail, list, run, since } = review;
  const [chain, then, { nonce }] = [idle(), acts.peek(), list];
  const still = () => acts.peek() === then && list.nonce === nonce && review.detail === detail && review.run === run;
  const params = list.params();
  const asked = detail ? get(`/api/review/case/${detail.id}`, params) : null;
  const [answers, found] = await Promise.all([list.fetched(), asked]);
  if (idle() !== chain || !still()) return false;
  const renewed = review.enqueue(async () => {
    list.follow(...answers);
    if (!found?.ok || review.editor.mask || JSON.stringify(found.case) === JSON.stringify(detail)) return true;
    await review.cases.enter(found.case, [], still);
    review.put({ since });
    return true;
  });
  return (await renewed) || false;
}

/** Undoes or redoes the reader's last decision in the studio. Returns the one that counts now, in words; false if it
 * was refused. @param {ReviewView} review @param {'undo' | 'redo'} which */
export async function undoOrRedo(review, which) {
  const body = { study: review.study, list: review.list.params() };
  const answer = which === 'undo' ? await post('/api/review/undo', body) : await post('/api/review/redo', body);
  if (!answer.ok) {
    review.say(answer.error);
    return false;
  }
  const { decision } = answer;
  review.put({ last: null });
  review.list.decided(answer.case, decision);
  await review.cases.enter(answer.next);
  return decision ? TITLE[decision] : 'undecided';
}
