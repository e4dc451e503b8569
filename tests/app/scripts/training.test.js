import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { same } from '../../../app/widgets/medmix/presets.js';
import { measuresOf } from '../../../app/widgets/training/comparison.js';
import { metricName } from '../../../app/widgets/training/figures.js';
import { chartsOf } from '../../../app/widgets/training/fit_board.js';
import { bestOf, firstShown, ordered, stateOf } from '../../../app/widgets/training/run_list.js';
import { flat } from '../../../app/widgets/training/run_view.js';
import { collapseLevel } from '../../../app/widgets/training/training_board.js';

/** @param {string} id @param {object} [more] */
const run = (id, more = {}) =>
  /** @type {any} */ ({ id, kind: 'pretrain', method: 'pmsacl', status: 'done', parent: null, ...more });

test('fits stand below their parent, oldest first; an orphan stands alone', () => {
  const runs = [
    run('f2', { parent: 'p' }),
    run('q'),
    run('f1', { parent: 'p' }),
    run('p'),
    run('o', { parent: 'gone' }),
  ];
  assert.deepEqual(
    ordered(runs).map((r) => r.id),
    ['q', 'p', 'f1', 'f2', 'o'],
  );
});

test('what is at work is shown first, else the newest training', () => {
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

test('the level of a collapse is a tenth of how features began to spread', () => {
  const spread = /** @type {[number, number | null][]} */ ([
    [0, null],
    [1, 2],
    [2, 4],
    [3, 3],
    [4, 9],
    [5, 100],
  ]);
  assert.equal(collapseLevel({ spread }), 0.4);
  assert.equal(collapseLevel({}), null);
});

test('series are sorted into charts and measures', () => {
  const points = /** @type {[number, number][]} */ ([
    [0, 1],
    [1, 2],
  ]);
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

test('settings are one list, and the same in whatever order', () => {
  assert.deepEqual(flat({ a: 1, b: { c: [1, 2], d: null } }), [
    ['a', 1],
    ['b.c', '1, 2'],
    ['b.d', null],
  ]);
  assert.ok(same({ a: 1, b: [2] }, { b: [2], a: 1 }));
  assert.ok(!same({ a: 1 }, { a: 2 }));
});
