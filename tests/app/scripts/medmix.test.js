import assert from 'node:assert/strict';
import test from 'node:test';
import './browser.js';
import { arranged } from '../../../app/widgets/medmix/grid.js';

// The room that the picture has on a laptop (1366 x 768), below 1366 and on an upright tablet.
const LAPTOP = /** @type {const} */ ([1034, 590]);
const TABLET = /** @type {const} */ ([460, 840]);

test('few classes stand as rows, many as columns of four samples or more, and fill the width', () => {
  assert.equal(arranged(4, 6, 1.18, ...LAPTOP).across, false);
  for (const classes of [6, 7, 8]) {
    const { across, samples, cols, cell } = arranged(classes, 6, 1.18, ...LAPTOP);
    assert.ok(across && samples >= 4 && cols === classes);
    assert.ok((cols * cell * 1.18) / LAPTOP[0] > 0.9, `${classes} classes`);
  }
});

test('cells lie within the stage, whatever the proportions', () => {
  for (const [wide, high] of [LAPTOP, TABLET])
    for (const aspect of [0.7, 1, 1.18])
      for (let classes = 2; classes <= 8; classes += 1) {
        const { cols, rows, cell } = arranged(classes, 6, aspect, wide, high);
        assert.ok(cols * cell * aspect <= wide + 1 && rows * cell <= high + 1, `${classes} classes, ${aspect}`);
      }
});
