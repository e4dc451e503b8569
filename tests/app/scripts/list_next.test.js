import assert from 'node:assert/strict';
import test from 'node:test';
import { nextUnread } from '../../../app/widgets/review/js/list.js';

const rows = (/** @type {string[]} */ ...decisions) =>
  decisions.map((decision, i) => ({ row: { id: i + 1, decision: decision || null } }));

test('the next unread row comes after the case on screen, else from the start of a list that is all there', () => {
  const list = rows('', 'normal', '', 'abnormal', '');
  assert.equal(nextUnread(list, 1, true)?.row.id, 3);
  assert.equal(nextUnread(list, 3, true)?.row.id, 5);
  assert.equal(nextUnread(list, 5, true)?.row.id, 1);
  assert.equal(nextUnread(list, 5, false), null, 'rows that have not been fetched may hold one');
  assert.equal(nextUnread(list, undefined, true)?.row.id, 1);
  assert.equal(nextUnread(rows('', 'normal'), 1, true), null, 'the case on screen is not the next one');
  assert.equal(nextUnread([], 4, true), null);
});
