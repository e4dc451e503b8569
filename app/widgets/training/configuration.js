// Everything that a run was made with, as one list: seed, code, data, packages, settings.
import { el } from '../../static/dom.js';
import { moment } from '../../static/format.js';

/** Nested settings as [key.with.dots, value]. @param {Record<string, unknown>} values @returns {[string, unknown][]} */
export function flat(values, before = '') {
  return Object.entries(values).flatMap(([key, value]) => {
    const name = `${before}${key}`;
    if (value && typeof value === 'object' && !Array.isArray(value))
      return flat(/** @type {Record<string, unknown>} */ (value), `${name}.`);
    return [[name, Array.isArray(value) ? value.join(', ') : value]];
  });
}

/** @param {import('../../static/answers').RunDetail} detail */
export function configuration({ run, data }) {
  const { marks, ...config } = run.config;
  /** @type {[string, unknown][]} */
  const pairs = [
    ['seed', run.config.seed],
    ['code', run.code],
    ['device', run.device],
    ['data', data ? `${data.name}, fingerprint ${(data.fingerprint || '').slice(0, 16)}` : ''],
    ['created', moment(run.created)],
    [
      'packages',
      Object.entries(run.packages || {})
        .map(([name, version]) => `${name} ${version}`)
        .join(', '),
    ],
    ['marks', marks ? `${/** @type {{ masks: number[] }} */ (marks).masks.length} masks that readers drew` : null],
    ...flat(config),
  ];
  return pairs.flatMap(([name, value]) => [
    el('span', { class: 'dim' }, name),
    el('span', {}, value == null || value === '' ? '–' : String(value)),
  ]);
}
