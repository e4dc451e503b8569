import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { enqueue, idle } from '../../../app/static/api.js';
import { History } from '../../../app/widgets/review/js/history.js';

// The list on the page is not tested here.
const element = () => ({ setAttribute() {}, append() {}, addEventListener() {}, replaceChildren() {}, childNodes: [] });
Object.assign(document, { createElement: element });

const wordsOf = (/** @type {{words: string}[]} */ acts) => acts.map((act) => act.words).join(', ');

/** A history whose acts write down what they do, and the view that it is of. */
function begun() {
  /** @type {string[]} */
  const did = [];
  const view = {
    detail: { id: 1, name: 'one', mine: [], v: '' },
    show: { truth: true },
    revealed: new Set(),
    editor: { points: [], mask: null, undo: () => did.push('corner') },
    flash: (/** @type {string} */ words) => did.push(words),
    enqueue,
  };
  const history = new History(/** @type {any} */ (view));
  /** @param {string} words @param {object} [more] */
  const act = (words, more = {}) =>
    history.add({ words, undo: () => did.push(`-${words}`), redo: () => did.push(`+${words}`), ...more });
  return { did, history, act };
}

test('undo reverts strokes, display, findings and decisions in order; redo restores them', async () => {
  const { did, history, act } = begun();
  for (const words of ['stroke', 'opacity', 'finding', 'decision']) act(words);
  history.go('undo');
  history.go('undo', 2);
  history.go('redo');
  await idle();
  const acts = did.filter((line) => /^[-+]/.test(line));
  assert.deepEqual(acts, ['-decision', '-finding', '-opacity', '+opacity']);
  assert.equal(wordsOf(history.done), 'stroke, opacity');
  assert.equal(wordsOf(history.undone), 'decision, finding');
  act('new');
  assert.equal(history.undone.length, 0, 'what is new cannot be followed by what was undone');
});

test('a dragged slider is one action, and a refused action is not retried', async () => {
  const { did, history, act } = begun();
  act('window', { kind: 'window', undo: () => did.push('-first') });
  act('window', { kind: 'window' });
  assert.equal(history.done.length, 1);
  act('blind decision', { undo: () => false });
  await history.go('undo');
  assert.deepEqual(did, []);
  await history.go('undo');
  assert.equal(did[0], '-first');
});

test('window settings are dropped with their case', () => {
  const { history, act } = begun();
  act('window', { passing: true });
  act('stroke');
  history.forget((one) => Boolean(one.passing));
  assert.equal(wordsOf(history.done), 'stroke');
});

test('an undone action can be redone, though undoing it changed the case', async () => {
  const { history, act } = begun();
  act('decision', { undo: () => history.forget((one) => Boolean(one.passing)) });
  await history.go('undo');
  assert.equal(wordsOf(history.undone), 'decision');
});
