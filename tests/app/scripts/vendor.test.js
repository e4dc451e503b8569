import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const read = (/** @type {string} */ path) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

test('the vendored libraries are those that package.json names, unchanged', () => {
  for (const [file, source] of Object.entries({
    'uPlot.esm.js': 'uplot/dist/uPlot.esm.js',
    'uPlot.min.css': 'uplot/dist/uPlot.min.css',
    'uPlot.LICENSE.txt': 'uplot/LICENSE',
    'preact.js': 'preact/dist/preact.mjs',
    'preact-hooks.js': 'preact/hooks/dist/hooks.mjs',
    'signals-core.js': '@preact/signals-core/dist/signals-core.module.js',
    'signals.js': '@preact/signals/dist/signals.module.js',
    'htm.js': 'htm/dist/htm.module.js',
    'preact.LICENSE.txt': 'preact/LICENSE',
    'signals.LICENSE.txt': '@preact/signals/LICENSE',
    'htm.LICENSE.txt': 'htm/LICENSE',
  }))
    assert.equal(read(`app/static/vendor/${file}`), read(`node_modules/${source}`), file);
});

test('packages are named by what they hold, not by where they were fetched', () => {
  const { packages } = JSON.parse(read('package-lock.json'));
  for (const [name, about] of Object.entries(packages)) {
    assert.ok(!('resolved' in about), name);
    // Of Biome's program for other systems only the version is known where the lock file was made.
    assert.ok(!name || about.integrity || about.optional, name);
  }
});
