// What a study holds: counts by split and label, the report of its import, a sample of cases with outlines.
import { api } from '../../static/api.js';
import { el, fill } from '../../static/dom.js';
import { plural } from '../../static/format.js';

/** @typedef {import('../../static/answers').Overview} Overview */
/** @typedef {import('../../static/answers').Split} Split */
/** @typedef {import('../../static/answers').Label} Label */

/** @type {Record<Label, string>} */
const LABEL = { normal: 'normal', abnormal: 'abnormal', unknown: 'not labelled' };
/** @type {Record<Split, string>} */
const SPLIT = { train: 'train', holdout: 'held out', test: 'test' };
const SPLITS = /** @type {Split[]} */ (Object.keys(SPLIT));

/** The labels that the study has cases of. @param {Overview['table']} table */
const labelsOf = (table) =>
  /** @type {Label[]} */ (Object.keys(LABEL)).filter((label) => SPLITS.some((split) => table[split][label]));

/** The rows of the table of counts. @param {Overview} overview */
export function counts({ table, masks }) {
  const labels = labelsOf(table);
  const cell = (/** @type {number} */ n) => el('td', { class: n ? 'num' : 'num zero' }, String(n));
  const sum = (/** @type {(split: Split) => number} */ of) => SPLITS.reduce((total, split) => total + of(split), 0);
  return [
    el(
      'tr',
      {},
      ['Cases', ...labels.map((l) => LABEL[l]), 'lesion masks'].map((t) => el('th', {}, t)),
    ),
    ...SPLITS.map((split) =>
      el(
        'tr',
        {},
        el('td', {}, SPLIT[split]),
        labels.map((l) => cell(table[split][l])),
        cell(masks[split]),
      ),
    ),
    el(
      'tr',
      { class: 'total' },
      el('td', {}, 'all'),
      labels.map((l) => cell(sum((split) => table[split][l]))),
      cell(sum((split) => masks[split])),
    ),
  ];
}

/** The parts a sample can be drawn from, as options of a menu. @param {Overview} overview */
export function parts({ table }) {
  const found = SPLITS.flatMap((split) =>
    labelsOf(table)
      .filter((label) => table[split][label])
      .map((label) => el('option', { value: `${split} ${label}` }, `${SPLIT[split]}, ${LABEL[label]}`)),
  );
  return [el('option', { value: 'all' }, 'every split and label'), ...found];
}

/** One line about a study. @param {Overview} overview */
export function facts({ study, sizes, size_count: count, bits, modalities }) {
  const two = sizes.slice(0, 2).map(([size]) => size);
  const shown = two.join(', ') + (count > 2 ? ` and ${count - 2} more sizes` : '');
  return [`${study.cases} cases`, shown, `${bits.join(' and ')} bits`, ...modalities, study.folder]
    .filter(Boolean)
    .join(' · ');
}

/** @param {HTMLElement} box @param {Overview} overview */
export function showReport(box, { report: r }) {
  if (!r) return fill(box, el('p', { class: 'dim' }, 'The report of this import was not kept.'));
  /** @template T @param {T[]} items @param {(item: T) => string} line */
  const list = (items, line) =>
    el(
      'ul',
      { class: 'dim' },
      items.slice(0, 200).map((item) => el('li', {}, line(item))),
    );
  const details = (/** @type {boolean} */ open, /** @type {string} */ title, /** @type {Node[]} */ ...inside) =>
    el('details', { open }, el('summary', { class: 'warn' }, title), inside);
  const good = (/** @type {string} */ text) => el('p', { class: 'good' }, text);
  const { rejected, duplicates, burned_in: burned = [], patients = 0, straddling = [] } = r;
  const left = list(rejected, (i) => `${i.path.split('/').slice(-2).join('/')}: ${i.reason}`);
  const same = list(duplicates, (d) => {
    const how = d.kind === 'exact' ? 'the same file as' : 'nearly the same as';
    return `${d.test} is ${how} ${d.train}`;
  });
  const repeats = `${duplicates.length} test ${duplicates.length > 1 ? 'cases show' : 'case shows'}`;
  const both = list(straddling, ({ train, test }) => `${train[0]} (training) and ${test[0]} (test)`);
  const look = 'A name or a date in the picture stays there, whatever is remapped: look before you pass images on.';
  return fill(
    box,
    rejected.length
      ? details(true, `${plural(rejected.length, 'file')} left out`, left)
      : good('✓ Every file could be read.'),
    duplicates.length
      ? details(duplicates.length < 5, `${repeats} what a training image shows`, same)
      : good('✓ No test case repeats a training image.'),
    straddling.length > 0 &&
      details(straddling.length < 5, `${plural(straddling.length, 'patient')} in training and in test`, both),
    patients > 1 &&
      good(
        `✓ ${plural(patients, 'patient')}: the images of each are held out together, and intervals are of patients.`,
      ),
    burned.length > 0 &&
      details(
        false,
        `${plural(burned.length, 'image')} may carry burned-in text`,
        el('p', { class: 'dim' }, look),
        list(burned, (name) => name),
      ),
  );
}

/** A case as a picture with its outlines, which follow. @param {import('../../static/answers').SampleCase} c */
export function tile(c) {
  const { id, name, split, label, width, height } = c;
  const svg = el(
    'svg',
    {
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: 'xMidYMid meet',
      role: 'img',
      'aria-label': `${name}, ${split}, ${label}`,
    },
    el('image', { href: `/api/study/case/${id}/tile.png?side=320`, width, height }),
  );
  api(`/api/study/case/${id}/outlines`).then(
    (outlines) => {
      for (const kind of /** @type {const} */ (['roi', 'lesion'])) {
        for (const line of outlines[kind]) {
          const points = line.map(([x, y]) => `${x * width},${y * height}`).join(' ');
          svg.append(el('polygon', { class: kind, points }));
        }
      }
      svg.dataset.outlined = 'yes';
    },
    () => {},
  );
  const caption = el('figcaption', { class: label }, `${SPLIT[split]} · ${LABEL[label]}`);
  return el('figure', { class: 'tile', title: name }, el('div', { class: 'frame' }, svg), caption);
}
