// A study's contents, as views of room.js: heading, next steps, counts by split and label, the report of its import, a
// sample of cases with outlines.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { plural } from '../../static/format.js';
import { about, GOAL } from '../../static/plan.js';
import { administers, plan, study } from '../../static/store.js';
import { choices, given, html, tableOf } from '../../static/view.js';
import { confirmKind, findingLabels, next, outlines, overview, part, sample, seed } from './room.js';

/** @type {Record<Answers.Label, string>} */
const LABEL = { normal: 'normal', abnormal: 'abnormal', unknown: 'not labelled' };
/** @type {Record<Answers.Split, string>} */
const SPLIT = { train: 'train', holdout: 'held out', test: 'test' };
const SPLITS = /** @type {Answers.Split[]} */ (Object.keys(SPLIT));
const LONGEST = 200; // lines of a list
const LOOK_AT = 'Names and dates inside the image are not remapped: check before you share images.';

/** Returns the labels of the study's cases. @param {Answers.Overview['table']} table */
const labelsOf = (table) =>
  /** @type {Answers.Label[]} */ (Object.keys(LABEL)).filter((label) => SPLITS.some((split) => table[split][label]));

/** Describes a study in one line. @param {Answers.Overview} overview */
export function facts({ study, sizes, size_count: count, bits, modalities }) {
  const two = sizes.slice(0, 2).map(([size]) => size);
  const shown = two.join(', ') + (count > 2 ? ` and ${count - 2} more sizes` : '');
  return [`${study.cases} cases`, shown, `${bits.join(' and ')} bits`, ...modalities, study.folder]
    .filter(Boolean)
    .join(' · ');
}

export function Heading() {
  const answer = overview.value;
  return html`<h2 class="title">${answer?.study.name}</h2><p class="dim facts">${answer ? facts(answer) : overview.error}</p>`;
}

/** The next steps with their progress, and the kind of image as guessed from the pictures.
 * @param {{look: () => void, open: (tab: string) => void}} props */
export function Next({ look, open }) {
  const answer = next.value;
  const id = study.value;
  if (!id || !answer || !administers.value || plan.value?.stages.length) return null;
  const { kinds, guess, kept, scored, trained, decided, masks, look: seconds } = answer;
  const labels = findingLabels.value?.study === id ? findingLabels.value.labels : null;
  const list = labels ? `; findings are labelled ${labels.slice(0, 3).join(', ')} …` : '';
  const now = kept || guess || 'other';
  const keep = (/** @type {string} */ kind) => orToast(confirmKind(id, kind));
  const test = Object.values(overview.value?.table.test || {}).reduce((sum, n) => sum + n, 0);
  const due = !scored ? 'look' : decided ? 'marks' : 'review';
  const looking = scored ? 'Done: every case has a score. Click to look again' : `Scores every case; ${about(seconds)}`;
  const reading = decided ? `${decided} of ${plural(test, 'test case')} decided` : 'One key per case';
  const marking =
    masks < GOAL
      ? `${masks} of ${GOAL} marked; then a detector learns from them`
      : `${masks} marked; “Learn from marks” is in Review`;
  /** @param {string} name @param {string} title @param {string} text @param {boolean} done @param {() => void} go */
  const step = (name, title, text, done, go) =>
    html`<li><button type="button" class="way go-${name} ${name === due ? 'main' : ''}" onClick=${go}><b>${done && html`<i>✓ </i>`}${title}</b><span>${text}</span></button></li>`;
  return html`<section class="next panel" aria-label="Next steps">
    <ol class="ways">
      ${step('look', 'Look', looking, scored, look)}
      ${step('review', 'Review', reading, decided > 0 && decided >= test, () => open('review'))}
      ${step('marks', 'Mark five lesions', marking, masks >= GOAL, () => open('review'))}
      ${step('train', 'Train', 'Optional: an encoder trained on lesions made from these images', trained, () => open('training'))}
    </ol>
    <div class="kind-line">
      <label class="check">Kind of image<select class="kind" aria-label="Kind of image" value=${now} onChange=${given(keep)}>
        ${choices(Object.entries(kinds))}
      </select></label>
      ${!kept && html`<button type="button" class="confirm" onClick=${() => keep(now)}>Confirm</button>`}
      <span class="dim kind-said" role="status">${kept ? `✓ confirmed${list}` : 'guessed from the images: is it right?'}</span>
    </div>
  </section>`;
}

/** @param {{overview: Answers.Overview}} props */
function Counts({ overview: { table, masks } }) {
  const labels = labelsOf(table);
  const cell = (/** @type {number} */ n) => html`<td class=${n ? 'num' : 'num zero'}>${n}</td>`;
  const sum = (/** @type {(split: Answers.Split) => number} */ of) => SPLITS.reduce((all, split) => all + of(split), 0);
  const row = (/** @type {Answers.Split} */ split) =>
    html`<tr><td>${SPLIT[split]}</td>${labels.map((l) => cell(table[split][l]))}${cell(masks[split])}</tr>`;
  const total = [...labels.map((l) => sum((split) => table[split][l])), sum((split) => masks[split])];
  const rows = [SPLITS.map(row), html`<tr class="total"><td>all</td>${total.map(cell)}</tr>`];
  return tableOf(['Cases', ...labels.map((l) => LABEL[l]), 'lesion masks'], rows, { class: 'counts panel' });
}

/** @param {{report: Answers.Overview['report']}} props */
function Report({ report }) {
  if (!report) return html`<p class="dim">The report of this import was not stored.</p>`;
  const { rejected, duplicates, burned_in: burned = [], patients = 0, straddling = [], odd = [] } = report;
  /** @param {boolean} open @param {string} title @param {string[]} lines @param {string} [note] */
  const details = (open, title, lines, note = '') =>
    html`<details open=${open}>
      <summary class="warn">${title}</summary>${note && html`<p class="dim">${note}</p>`}
      <ul class="dim">${lines.slice(0, LONGEST).map((line) => html`<li>${line}</li>`)}</ul>
    </details>`;
  const good = (/** @type {string} */ text) => html`<p class="good">${text}</p>`;
  const reasons = (/** @type {typeof rejected} */ rows) =>
    rows.map((i) => `${i.path.split('/').slice(-2).join('/')}: ${i.reason}`);
  const same = duplicates.map(
    ({ test, kind, train }) => `${test} is ${kind === 'exact' ? 'the same file as' : 'nearly the same as'} ${train}`,
  );
  const repeats = `${duplicates.length} test ${duplicates.length > 1 ? 'cases repeat' : 'case repeats'}`;
  const both = straddling.map(({ train, test }) => `${train[0]} (training) and ${test[0]} (test)`);
  const people = `✓ ${plural(patients, 'patient')}: the images of a patient are held out together, and intervals resample patients.`;
  return html`
    ${rejected.length ? details(true, `${plural(rejected.length, 'file')} skipped`, reasons(rejected)) : good('✓ Every file could be read.')}
    ${
      duplicates.length
        ? details(duplicates.length < 5, `${repeats} a training image`, same)
        : good('✓ No test case repeats a training image.')
    }
    ${straddling.length > 0 && details(straddling.length < 5, `${plural(straddling.length, 'patient')} in training and in test`, both)}
    ${odd.length > 0 && details(false, `${plural(odd.length, 'file')} with odd values in the header`, reasons(odd))}
    ${patients > 1 && good(people)}
    ${burned.length > 0 && details(false, `${plural(burned.length, 'image')} may carry burned-in text`, burned, LOOK_AT)}
  `;
}

/** Shows counts and the report of the import. */
export function Summary() {
  const answer = overview.value;
  if (!answer) return null;
  return html`<div class="summary">
    <${Counts} overview=${answer} />
    <div class="report panel" tabindex="0" role="region" aria-label="Report of the import"><${Report} report=${answer.report} /></div>
  </div>`;
}

/** Shows a case's picture; its outlines load later. @param {{c: Answers.SampleCase}} props */
function Tile({ c: { id, name, split, label, width, height } }) {
  const [lines, setLines] = useState(/** @type {Answers.Outlines | null} */ (null));
  useEffect(() => {
    api(`/api/study/case/${id}/outlines`).then(setLines, () => {});
  }, [id]);
  const polygons = (/** @type {'roi' | 'lesion'} */ kind) =>
    lines?.[kind].map(
      (line) => html`<polygon class=${kind} points=${line.map(([x, y]) => `${x * width},${y * height}`).join(' ')} />`,
    );
  return html`<figure class="tile" title=${name}>
    <div class="frame">
      <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="xMidYMid meet" role="img" aria-label="${name}, ${split}, ${label}" data-outlined=${lines ? 'yes' : null}>
        <image href="./api/study/case/${id}/tile.png?side=320" width=${width} height=${height} />
        ${polygons('roi')}${polygons('lesion')}
      </svg>
    </div>
    <figcaption class=${label}>${SPLIT[split]} · ${LABEL[label]}</figcaption>
  </figure>`;
}

/** Shows a sample of cases, of one split or of all. */
export function Sample() {
  const answer = overview.value;
  if (!answer) return null;
  const { table } = answer;
  const parts = SPLITS.flatMap((split) =>
    labelsOf(table)
      .filter((label) => table[split][label])
      .map((label) => [`${split} ${label}`, `${SPLIT[split]}, ${LABEL[label]}`]),
  );
  const shown = outlines.value;
  const box = (/** @type {'roi' | 'lesion'} */ kind, /** @type {string} */ text) =>
    html`<label class="check">
      <input type="checkbox" class="show-${kind}" checked=${shown[kind]}
        onChange=${() => (outlines.value = { ...shown, [kind]: !shown[kind] })} />
      <span class="swatch ${kind}" />${text}
    </label>`;
  return html`<div class="tools">
      <h2>Sample</h2>
      <select class="part" aria-label="Which cases" value=${part.value} onChange=${given((of) => (part.value = of))}>
        ${choices([['all', 'all splits and labels'], ...parts])}
      </select>
      ${box('roi', 'Region of interest')}${box('lesion', 'Lesion mask')}
      <button class="another" onClick=${() => (seed.value += 1)}>Another sample</button>
    </div>
    <div class="tiles ${shown.roi ? '' : 'no-roi'} ${shown.lesion ? '' : 'no-lesion'}">
      ${sample.value?.cases.map((c) => html`<${Tile} key=${c.id} c=${c} />`)}
    </div>`;
}
