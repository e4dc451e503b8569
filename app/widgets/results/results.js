// The Results tab: figures of one run of the study, computed by the server.
import { api, questions } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { action, el, fill, finder } from '../../static/dom.js';
import { day, fixed, percent, plural } from '../../static/format.js';
import { unscored } from '../../static/plan.js';
import { administers } from '../../static/store.js';
import { dom } from '../../static/view.js';
import { badge, believed, guaranteed } from './believe.js';
import { exports } from './exports.js';
import { diceBySize, predictions, roc } from './plots.js';
import { agreement, changedMinds, detectors, figures, verdicts } from './tables.js';

/** Describes the threshold, and who chose it. @param {Answers.Chosen} point */
const inEffect = ({ words, threshold, reader, created }) =>
  `${words}${threshold === null ? '' : `, above a score of ${fixed(threshold)}`}` +
  `${reader && `; chosen by ${reader} on ${day(created)}`}`;

const DRAG = 'Drag the dot along the curve, or use the arrow keys; the flags in every list are updated.';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const page = finder(root)('.rs-page');
  /** @type {string | null} */
  let asked = null;
  let run = '';
  let masks = ''; // the lesion masks used as ground truth; '': the study's default
  let last = ''; // the current answer, as text
  /** @type {Answers.Results | null} */
  let answer = null;
  /** Fetches the additional answers: reliability, and Dice by size. @type {(() => Promise<void>) | null} */
  let later = null;
  let may = true; // whether the reader may move the operating point and use other administrators' functions
  let awaited = false; // planted lesions, by a job
  const question = questions();

  const link = (/** @type {number} */ id, /** @type {string} */ name) => action(name, () => studio.openCase(id));
  const choose = (/** @type {string} */ id) => {
    run = id;
    show(true);
  };
  const wide = (/** @type {string} */ title, /** @type {Page.Child} */ content) =>
    el('section', { class: 'panel rs-wide' }, el('h2', {}, title), content);

  /** @param {Answers.ResultsOfRun} r @param {HTMLElement} guarantee of the limit, filled later */
  function operatingPoint({ run: of, labels, chosen, history }, guarantee) {
    const said = el('p', { class: 'num rs-said', role: 'status' });
    const keep = async (/** @type {Record<string, unknown>} */ body) => {
      await api(`/api/results/${encodeURIComponent(studio.study || '')}/point`, { run: of, ...body });
      await show(true);
      studio.emit('flags');
    };
    const moved = (/** @type {number} */ place, /** @type {boolean} */ done) => {
      const [x, y] = labels.roc?.[place] || [0, 0];
      said.textContent = `Sensitivity ${percent(y)}, specificity ${percent(1 - x)}`;
      if (done) orToast(keep({ source: 'dragged', threshold: labels.cuts[place] }));
    };
    const way = (/** @type {string} */ text, /** @type {string} */ title, /** @type {string} */ source) =>
      action(text, () => orToast(keep({ source })), { title });
    const ways = () => dom`<div class="rs-head">
      ${way('Limit false alarms to 5 %', 'Flags at most 5 % of normal images like the held-out ones', 'limit')}
      ${way('Fit to readers', 'Sets the threshold that agrees best with the readers’ decisions', 'readers')}
      ${
        chosen.source !== 'default' &&
        way('Reset', 'Flags scores above the 95th percentile of held-out normals again', 'default')
      }
    </div>`;
    const earlier = () => dom`<details class="num">
      <summary>${plural(history.length - 1, 'earlier operating point')}</summary>
      ${history.slice(1).map((point) => el('p', { class: 'dim' }, `${inEffect(point)}.`))}
    </details>`;
    const how = may ? DRAG : 'An administrator moves the operating point.';
    return dom`<section class="panel">
      <div class="rs-head"><h2>Operating point</h2></div>
      ${roc(labels, may ? moved : null)}
      ${said}
      <p class="num rs-chosen">In effect: ${inEffect(chosen)}. Higher scores are flagged.</p>
      ${history.length > 1 && earlier()}
      <p class="dim num">${labels.auroc === null ? '' : `AUROC ${fixed(labels.auroc)}. ${how}`}</p>
      ${may && ways()}${guarantee}
    </section>`;
  }

  /** @param {Answers.ResultsOfRun} r */
  function flagged(r) {
    const kinds = /** @type {const} */ ({ reference: 'reference masks', readers: 'readers’ accepted masks' });
    const kind = el('select', {
      'aria-label': 'Lesion masks',
      title: 'The lesion masks that Dice, pixel AUROC and PRO are computed against',
      onchange: () => {
        masks = kind.value;
        show(true);
      },
    });
    const against = (/** @type {keyof typeof kinds} */ name) =>
      el('option', { value: name, selected: name === r.masks }, `Against ${r.counts[name]} ${kinds[name]}`);
    kind.append(against('reference'), against('readers'));
    const again = async () => {
      const { job } = await api(`/api/results/${encodeURIComponent(studio.study || '')}/evaluate`, { masks: r.masks });
      toast(`Job ${job} evaluates all runs.`, 'good');
    };
    const title = 'Computes these figures again for all runs, with the current cases, labels and masks';
    return dom`<div class="panel">
      <h2>At the operating point</h2>
      <div class="rs-two">
        ${figures('Against the labels', r.labels, { 'Normal images outlined': r.outlined })}
        ${figures('Against the readers', r.readers)}
      </div>
      <div class="rs-head">
        <h2>Detectors compared</h2>${kind}${may && action('Evaluate all', () => orToast(again()), { title })}
      </div>
      ${detectors(r.compared, r.run, choose)}
      <h2>Agreement of readers</h2>
      ${agreement(r.agreement, link)}
      <h2>Decisions changed after seeing the score</h2>
      ${changedMinds(r.minds)}
    </div>`;
  }

  /** Clears the previous study while another one's figures are loading. @param {string | null} study */
  function clear(study) {
    asked = study;
    run = last = masks = '';
    answer = later = null;
    question();
    fill(page, el('p', { class: 'dim' }, studio.study ? 'Reading the scores…' : 'Choose a study.'));
  }

  async function show(force = false, changed = false) {
    const { study } = studio;
    if (!study || !studio.shown(root) || (!force && asked === study)) return;
    if (asked !== study) clear(study);
    const newest = question();
    let r;
    try {
      r = await api(`/api/results/${encodeURIComponent(study)}?run=${encodeURIComponent(run)}&masks=${masks}`);
    } catch (error) {
      if (!newest()) return;
      last = '';
      fill(page, el('p', { class: 'panel rs-wide' }, error.message));
      return;
    }
    const text = JSON.stringify([study, r]);
    if (!newest()) return;
    // An unchanged answer is not redrawn, so that a drag can continue; the additional answers are fetched again.
    if (changed && text === last) return later?.();
    last = text;
    answer = r;
    await draw(r);
  }

  /** @param {Answers.Results} r */
  async function draw(r) {
    later = null;
    const study = studio.study || '';
    const of = /** @type {const} */ (`/api/results/${encodeURIComponent(study)}`);
    const out = exports(study, r.run, { blind: r.blind, may }, link, () => show(true));
    if (r.run === null) {
      const readers = wide('Agreement of readers', agreement(r.agreement, link));
      fill(page, el('div', { class: 'panel rs-wide' }, unscored()), readers, out);
      return;
    }
    const doubts = el('div', {}, el('p', { class: 'dim' }, 'Comparing new images…'));
    const guarantee = el('details', {});
    const plant = action('Plant test lesions', () => orToast(planting()), {
      title: 'Plants synthetic lesions into held-out normals, counts which are flagged, and compares new images',
    });
    const planting = async () => {
      await api(`${of}/believe?run=${encodeURIComponent(r.run)}`, {});
      plant.disabled = awaited = true;
      toast('Planting lesions. The table appears here when it is done.', 'good');
    };
    const alarm = el('div', { class: 'rs-wide', role: 'status', hidden: true });
    const sizes = el('div', {}, el('p', { class: 'dim' }, 'Reading masks and heat maps…'));
    fill(
      page,
      alarm,
      verdicts(r.verdicts, r.run, choose),
      operatingPoint(r, guarantee),
      flagged(r),
      wide('Predictions by score, highest first', predictions(r.panel, studio.openCase)),
      wide('Reliability', doubts),
      wide('Dice by lesion size', sizes),
      out,
    );
    const why = (/** @type {HTMLElement} */ place) => (/** @type {Error} */ error) => {
      fill(place, el('p', {}, error.message));
    };
    later = async () => {
      api(`${of}/believe?run=${encodeURIComponent(r.run)}`).then((/** @type {Answers.Believed} */ found) => {
        fill(doubts, believed(found, may && plant));
        fill(guarantee, guaranteed(found.promise)).hidden = !found.promise;
        const changed = badge(found);
        fill(alarm, changed).hidden = !changed;
      }, why(doubts));
      await api(`${of}/sizes?run=${encodeURIComponent(r.run)}&masks=${r.masks}`).then(
        (/** @type {Answers.Sizes} */ found) => {
          fill(sizes, diceBySize(found));
        },
        why(sizes),
      );
    };
    await later();
  }

  studio.on('study', () => {
    clear(null);
    show();
  });
  studio.on('back', () => show(true, true));
  studio.on('tab', (tab) => tab === 'results' && show(true, true));
  studio.on('scored', () => show(true));
  studio.on('status', ({ job, beside }) => {
    if (!awaited || job || beside) return;
    awaited = false;
    later?.();
  });
  // Until the reader's rights are known the page is an administrator's; it is only redrawn for other readers.
  administers.subscribe((known) => {
    if (may === (known !== false)) return;
    may = known !== false;
    if (answer) draw(answer);
  });
  new ResizeObserver(() => show()).observe(root);
  show();
}
