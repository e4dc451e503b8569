import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { same } from '../../../app/widgets/medmix/presets.js';
import { chartsOf, collapseLevel } from '../../../app/widgets/training/boards.js';
import { measuresOf } from '../../../app/widgets/training/comparison.js';
import { metricName } from '../../../app/widgets/training/figures.js';
import { bestOf, firstShown, ordered, stateOf } from '../../../app/widgets/training/run_list.js';
import { flat } from '../../../app/widgets/training/run_view.js';

/** @param {string} id @param {object} [more] */
const run = (id, more = {}) =>
  /** @type {any} */ ({ id, kind: 'pretrain', method: 'pmsacl', status: 'done', parent: null, ...more });

test('fits are listed below their parent, oldest first; an orphan is listed alone', () => {
  const fit = (/** @type {string} */ id, parent = 'p') => run(id, { parent });
  const sorted = ordered([fit('f2'), run('q'), fit('f1'), run('p'), fit('o', 'gone')]);
  assert.equal(sorted.map((r) => r.id).join(' '), 'q p f1 f2 o');
});

test('the running run is shown first, else the newest training', () => {
  const fit = run('f', { kind: 'fit' });
  assert.equal(firstShown([fit, run('u', { method: 'untrained' }), run('p')]).id, 'p');
  assert.equal(firstShown([fit, run('p'), run('w', { status: 'running' })]).id, 'w');
  assert.equal(firstShown([fit]).id, 'f');
  assert.equal(firstShown([run('i', { method: 'imagenet' }), fit]).id, 'f', 'pretrained weights have no curves');
});

test('the best run is the one with the best AUROC, of two or more', () => {
  const scored = (/** @type {string} */ id, /** @type {number} */ auroc) => run(id, { evaluation: { auroc } });
  assert.equal(bestOf([scored('a', 0.7), run('x'), scored('b', 0.9), scored('c', 0.8)]), 'b');
  assert.equal(bestOf([scored('a', 0.7), run('x')]), null);
  assert.equal(bestOf([]), null);
});

test('a state in words', () => {
  const job = { here: true, status: 'running', wants: 'run', verb: 'score' };
  const say = (/** @type {object} */ of, /** @type {string} */ status) =>
    stateOf(status, /** @type {any} */ ({ ...job, ...of })).words;
  assert.equal(say({ wants: 'pause' }, 'running'), 'pausing…');
  assert.equal(say({ status: 'paused' }, 'running'), 'paused');
  assert.equal(say({}, 'done'), 'scoring');
  assert.equal(say({ verb: 'embed' }, 'done'), 'drawing the map');
  assert.equal(say({ here: false }, 'new'), 'not started');
});

test('the collapse level is a tenth of the initial feature spread', () => {
  const spread = [null, 2, 4, 3, 9, 100].map((v, i) => /** @type {Answers.Point} */ ([i, v]));
  assert.equal(collapseLevel({ spread }), 0.4);
  assert.equal(collapseLevel({}), null);
});

test('series are sorted into charts and measures', () => {
  const points = [1, 2].map((v, i) => /** @type {Answers.Point} */ ([i, v]));
  const names = ['loss', 'l_pixel', 'lr', 'score', 'epoch'];
  const series = Object.fromEntries(names.map((name) => [name, points]));
  assert.deepEqual(chartsOf({ ...series, alone: [points[0]] }), {
    losses: ['loss', 'l_pixel'],
    rate: ['lr'],
    rest: ['score'],
  });
  assert.deepEqual(measuresOf([series, { aaa: points }]), ['loss', 'lr', 'aaa', 'l_pixel', 'score']);
});

test('metrics have names', () => {
  const keys = ['l_aug', 'val_accuracy', 'val_l_con', 'centre_distance_2', 'feature_spread'];
  assert.deepEqual(keys.map(metricName), [
    'Class loss',
    'Class accuracy, held out',
    'Contrastive loss, held out',
    'Distance to centre 2',
    'feature spread',
  ]);
});

test('nested settings become one list, and are compared in any order', () => {
  const nested = { a: 1, b: { c: [1, 2], d: null } };
  assert.deepEqual(Object.fromEntries(flat(nested)), { a: 1, 'b.c': '1, 2', 'b.d': null });
  assert.ok(same({ a: 1, b: [2] }, { b: [2], a: 1 }));
  assert.ok(!same({ a: 1 }, { a: 2 }));
});
