// The Results tab: figures of one run of the study, computed by the server.
import { computed, signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { day, fixed, percent, plural } from '../../static/format.js';
import { Unscored } from '../../static/plan.js';
import { Answered, administers, study } from '../../static/store.js';
import { button, choices, given, html, show } from '../../static/view.js';
import { Exports, listen } from './exports.js';
import { diceBySize, predictions, Roc } from './plots.js';
import { agreement, believed, changedMinds, detectors, figures, guaranteed, verdicts } from './tables.js';

/** Describes the threshold, and who chose it. @param {Answers.Chosen} point */
const inEffect = ({ words, threshold, reader, created }) =>
  `${words}${threshold === null ? '' : `, above a score of ${fixed(threshold)}`}` +
  `${reader && `; chosen by ${reader} on ${day(created)}`}`;

const DRAG = 'Drag the dot along the curve, or use the arrow keys; the flags in every list are updated.';

/** @param {string} title @param {unknown} content */
const wide = (title, content) => html`<section class="panel rs-wide"><h2>${title}</h2>${content}</section>`;

/** @param {string | null} of a study */
const at = (of) => /** @type {const} */ (`/api/results/${encodeURIComponent(of || '')}`);

/** The ROC curve and the threshold. @param {{r: Answers.ResultsOfRun, may: boolean, renew: () => Promise<void>,
 * studio: Page.Studio, guarantee: any}} props may: move the operating point; guarantee: of the limit */
function OperatingPoint({ r: { run, labels, chosen, history }, may, renew, studio, guarantee }) {
  const [place, setPlace] = useState(/** @type {number | null} */ (null)); // of the curve, while the point is moved
  const keep = async (/** @type {Record<string, unknown>} */ body) => {
    await api(`${at(study.value)}/point`, { run, ...body });
    await renew();
    setPlace(null);
    studio.emit('flags');
  };
  const moved = (/** @type {number} */ to, /** @type {boolean} */ done) => {
    setPlace(to);
    if (done) orToast(keep({ source: 'dragged', threshold: labels.cuts[to] }));
  };
  const way = (/** @type {string} */ text, /** @type {string} */ title, /** @type {string} */ source) =>
    button(text, () => orToast(keep({ source })), { title });
  const [x, y] = (place !== null && labels.roc?.[place]) || [0, 0];
  const how = may ? DRAG : 'An administrator moves the operating point.';
  return html`<section class="panel">
    <div class="rs-head"><h2>Operating point</h2></div>
    <${Roc} figures=${labels} place=${place} moved=${may ? moved : null} />
    <p class="num rs-said" role="status">
      ${place !== null && `Sensitivity ${percent(y)}, specificity ${percent(1 - x)}`}
    </p>
    <p class="num rs-chosen">In effect: ${inEffect(chosen)}. Higher scores are flagged.</p>
    ${
      history.length > 1 &&
      html`<details class="num">
        <summary>${plural(history.length - 1, 'earlier operating point')}</summary>
        ${history.slice(1).map((point) => html`<p class="dim">${inEffect(point)}.</p>`)}
      </details>`
    }
    <p class="dim num">${labels.auroc === null ? '' : `AUROC ${fixed(labels.auroc)}. ${how}`}</p>
    ${
      may &&
      html`<div class="rs-head">
        ${way('Limit false alarms to 5 %', 'Flags at most 5 % of normal images like the held-out ones', 'limit')}
        ${way('Fit to readers', 'Sets the threshold that agrees best with the readers’ decisions', 'readers')}
        ${
          chosen.source !== 'default' &&
          way('Reset', 'Flags scores above the 95th percentile of held-out normals again', 'default')
        }
      </div>`
    }
    ${guarantee}
  </section>`;
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const visible = signal(false);
  const awaited = signal(false); // planted lesions, by a job
  // The run, and the lesion masks used as ground truth; '': the study's default.
  const choice = signal({ study: study.value, run: '', masks: '' });
  const chosen = computed(() =>
    choice.value.study === study.value ? choice.value : { study: study.value, run: '', masks: '' },
  );
  /** @param {{run?: string, masks?: string}} what */
  const choose = (what) => {
    choice.value = { ...chosen.value, ...what };
  };
  /** @type {Answered<string, Answers.Results>} */
  const results = new Answered(() => {
    const { run, masks } = chosen.value;
    if (!visible.value || !study.value) return null;
    return `${at(study.value)}?run=${encodeURIComponent(run)}&masks=${masks}`;
  });
  /** @param {(r: Answers.ResultsOfRun) => string} path of an additional answer on the run */
  const ofRun = (path) => () => (results.value?.run ? `${at(study.value)}/${path(results.value)}` : null);
  /** @type {Answered<string, Answers.Reliability>} */
  const reliability = new Answered(ofRun((r) => `believe?run=${encodeURIComponent(r.run)}`));
  /** @type {Answered<string, Answers.Sizes>} */
  const sizes = new Answered(ofRun((r) => `sizes?run=${encodeURIComponent(r.run)}&masks=${r.masks}`));
  /** After the results: a blind reader gets neither. @type {Answered<string, Answers.ExportWarning>} */
  const warning = new Answered(() =>
    results.value && study.value ? `/api/export/${encodeURIComponent(study.value)}/warning` : null,
  );
  const renew = () => {
    for (const answer of [results, reliability, sizes]) answer.renew();
  };

  const link = (/** @type {number} */ id, /** @type {string} */ name) => button(name, () => studio.openCase(id));
  const chooseRun = (/** @type {string} */ run) => choose({ run });

  /** @param {Answers.ResultsOfRun} r @param {boolean} may use administrators' functions */
  function flagged(r, may) {
    const kinds = { reference: 'reference masks', readers: 'readers’ accepted masks' };
    const again = async () => {
      const { job } = await api(`${at(study.value)}/evaluate`, { masks: r.masks });
      toast(`Job ${job} evaluates all runs.`, 'good');
    };
    const title = 'Computes these figures again for all runs, with the current cases, labels and masks';
    return html`<div class="panel">
      <h2>At the operating point</h2>
      <div class="rs-two">
        ${figures('Against the labels', r.labels, { 'Normal images outlined': r.outlined })}
        ${figures('Against the readers', r.readers)}
      </div>
      <div class="rs-head">
        <h2>Detectors compared</h2>
        <select aria-label="Lesion masks" value=${r.masks}
          title="The lesion masks that Dice, pixel AUROC and PRO are computed against"
          onChange=${given((masks) => choose({ masks }))}>
          ${choices(Object.entries(kinds).map(([name, words]) => [name, `Against ${r.counts[name]} ${words}`]))}
        </select>
        ${may && button('Evaluate all', () => orToast(again()), { title })}
      </div>
      ${detectors(r.compared, r.run, chooseRun)}
      <h2>Agreement of readers</h2>
      ${agreement(r.agreement, link)}
      <h2>Decisions changed after seeing the score</h2>
      ${changedMinds(r.minds)}
    </div>`;
  }

  /** Says that an answer is awaited, or why there is none. @param {Answered<any, any>} answer @param {string} words */
  const missing = (answer, words) => html`<p class=${answer.error ? '' : 'dim'}>${answer.error || words}</p>`;

  /** @param {{r: Answers.ResultsOfRun, may: boolean}} props */
  function OfRun({ r, may }) {
    const planting = async () => {
      await api(`${at(study.value)}/believe?run=${encodeURIComponent(r.run)}`, {});
      awaited.value = true;
      toast('Planting lesions. The table appears here when it is done.', 'good');
    };
    const title = 'Plants synthetic lesions into held-out normals, counts which are flagged, and compares new images';
    const plant = may && button('Plant test lesions', () => orToast(planting()), { title, disabled: awaited.value });
    const found = reliability.value;
    const dice = sizes.value ? diceBySize(sizes.value) : missing(sizes, 'Reading masks and heat maps…');
    const alarm = found?.changed?.since && `⚠ ${found.changed.words}. The guarantee does not hold for them.`;
    return html`
      ${alarm && html`<div class="rs-wide" role="status"><p class="panel bad">${alarm}</p></div>`}
      ${verdicts(r.verdicts, r.run, chooseRun)}
      <${OperatingPoint} key=${r.run} r=${r} may=${may} renew=${() => results.renew()} studio=${studio}
        guarantee=${guaranteed(found?.promise ?? null)} />
      ${flagged(r, may)}
      ${wide('Predictions by score, highest first', predictions(r.panel, studio.openCase))}
      ${wide('Reliability', found ? believed(found, plant) : missing(reliability, 'Comparing new images…'))}
      ${wide('Dice by lesion size', dice)}`;
  }

  function Whole() {
    if (results.error) return html`<p class="panel rs-wide">${results.error}</p>`;
    if (!study.value) return html`<p class="dim">Choose a study.</p>`;
    const { key, value: r } = results.held.value; // the last answer for this study, until the next one arrives
    if (!r || !key?.startsWith(`${at(study.value)}?`)) return html`<p class="dim">Reading the scores…</p>`;
    // Until the reader's rights are known the page is an administrator's; it only changes for other readers.
    const may = administers.value !== false;
    const readers =
      () => html`<div class="panel rs-wide"><p class="dim unscored" role="status"><${Unscored} /></p></div>
      ${wide('Agreement of readers', agreement(r.agreement, link))}`;
    return html`${r.run === null ? readers() : html`<${OfRun} r=${r} may=${may} />`}
      <${Exports} key=${study.value} study=${study.value} run=${r.run} blind=${r.blind}
        may=${may} warning=${warning.value} link=${link} changed=${() => results.renew()} />`;
  }
  listen();
  show(finder(root)('.rs-page'), Whole);

  for (const event of ['back', 'scored']) studio.on(event, renew);
  let open = studio.tab;
  studio.on('tab', (tab) => {
    if (tab === 'results' && open === tab) renew(); // else the tab becomes visible, and fetches
    open = tab;
  });
  studio.on('status', ({ job, beside }) => {
    if (!awaited.value || job || beside) return;
    awaited.value = false;
    reliability.renew();
  });
  new ResizeObserver(() => (visible.value = studio.shown(root))).observe(root);
}
