// A decision that cannot be stored yet (full disk, restarting studio) is kept in the browser and sent again.
import { post, token } from '../../../static/api.js';
import { keep, kept } from '../../../static/kept.js';

/** @typedef {{reader: string, body: Record<string, unknown>}} Kept */

const KEY = 'pmsacl.decisions';
const PASSING = new Set([undefined, 503, 507]); // unreachable, busy, disk full
const PAUSE = 3000; // milliseconds between two attempts

/** @returns {Kept[]} */
const waiting = () => kept(KEY, []);

/** @param {Kept} entry */
function forget(entry) {
  const others = waiting().filter((one) => one.body.token !== entry.body.token);
  keep(KEY, others);
}

/** @param {{ok: boolean, status?: number}} answer whether another attempt may succeed */
export const isPassing = (answer) => !answer.ok && PASSING.has(answer.status);

/** Sends a decision until the studio answers; returns the answer. The token makes it count once.
 * @param {ReviewView} review @param {Record<string, unknown>} body @param {number} [pause] */
export async function stored(review, body, pause = PAUSE) {
  const entry = { reader: review.setup?.reader || '', body: { token: token(), ...body } };
  keep(KEY, [...waiting(), entry]);
  for (;;) {
    const answer = await post('/api/review/decide', entry.body);
    if (!isPassing(answer)) {
      forget(entry);
      return answer;
    }
    const reason = 'error' in answer ? answer.error : '';
    review.say(`Not stored yet. ${reason} The decision is kept in this browser and is sent again.`, 'bad');
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** After a reload, sends this reader's unanswered decisions. @param {ReviewView} review */
export async function sendKept(review) {
  const reader = review.setup?.reader;
  for (const entry of waiting().filter((one) => one.reader === reader)) {
    const answer = await post('/api/review/decide', { ...entry.body, list: undefined });
    if (isPassing(answer)) return review.say('Decisions that are kept in this browser could not be stored yet.', 'bad');
    forget(entry);
    if (!answer.ok) review.say(`A decision that was kept in this browser was refused: ${answer.error}`, 'bad');
    else review.say('A decision that was kept in this browser is now stored.', 'good');
  }
}
