import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { isPassing, sendKept, stored } from '../../../app/widgets/review/js/stored.js';

/** @type {Map<string, string>} */
const kept = new Map();
Object.defineProperty(globalThis, 'localStorage', {
  configurable: true,
  value: {
    getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => kept.set(key, value),
  },
});

/** A studio that answers with each of these in turn; what it was sent. @param {[number, object][]} answers */
function studio(answers) {
  /** @type {any[]} */
  const sent = [];
  Object.defineProperty(globalThis, 'fetch', {
    configurable: true,
    value: async (/** @type {string} */ _path, /** @type {{body: string}} */ init) => {
      sent.push(JSON.parse(init.body));
      const [status, body] = answers[sent.length - 1];
      return new Response(JSON.stringify(body), { status });
    },
  });
  return sent;
}

/** @returns {any} a review of the reader ann that notes what it says */
const reviewOf = (reader = 'ann') => {
  /** @type {string[]} */
  const said = [];
  return { setup: { reader }, said, say: (/** @type {string} */ text) => said.push(text) };
};
const waiting = () => JSON.parse(kept.get('pmsacl.decisions') || '[]');

test('a decision is sent with one token until it is stored, and kept meanwhile', async () => {
  const review = reviewOf();
  const sent = studio([
    [507, { ok: false, error: 'The disk is full.' }],
    [503, { ok: false, error: 'The studio is busy.' }],
    [200, { ok: true, review: 1 }],
  ]);
  const answer = stored(review, { case: 5, decision: 'normal' }, 1);
  assert.equal(waiting()[0].body.case, 5);
  assert.equal((await answer).ok, true);
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((body) => body.token)).size, 1);
  assert.match(review.said[0], /Not stored yet. The disk is full/);
  assert.deepEqual(waiting(), []);
});

test('a refusal is an answer, and is not sent again', async () => {
  const sent = studio([[403, { ok: false, error: 'Hidden.' }]]);
  assert.equal((await stored(reviewOf(), { case: 5, decision: 'normal' }, 1)).ok, false);
  assert.equal(sent.length, 1);
  assert.deepEqual(waiting(), []);
  assert.equal(isPassing({ ok: false, status: 400 }), false);
  assert.equal(isPassing({ ok: false }), true);
});

test('decisions left by a reload are sent only for their reader', async () => {
  const mine = { reader: 'ann', body: { token: 't1', case: 7, decision: 'abnormal' } };
  const theirs = { reader: 'bob', body: { token: 't2', case: 8, decision: 'normal' } };
  kept.set('pmsacl.decisions', JSON.stringify([mine, theirs]));
  const sent = studio([[200, { ok: true }]]);
  const review = reviewOf();
  await sendKept(review);
  assert.equal(sent[0].token, 't1');
  assert.deepEqual(waiting(), [theirs]);
  assert.match(review.said[0], /now stored/);
});
