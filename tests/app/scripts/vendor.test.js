import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const read = (/** @type {string} */ path) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

test('the chart library that the page is given is the one whose types are checked', () => {
  for (const file of ['uPlot.esm.js', 'uPlot.min.css'])
    assert.equal(read(`app/static/vendor/${file}`), read(`node_modules/uplot/dist/${file}`));
  assert.equal(read('app/static/vendor/uPlot.LICENSE.txt'), read('node_modules/uplot/LICENSE'));
});

test('the store and its views run on the libraries that package.json names, as they come', () => {
  for (const [file, source] of Object.entries({
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
