// "Learn from marks": the material, the progress of learning, and the new detector compared with the old.
import { api, get } from '../../../static/api.js';
import { orToast, sheet } from '../../../static/dialogs.js';
import { action, el, fill, num, options, table, tr } from '../../../static/dom.js';
import { fixed, moment, plural } from '../../../static/format.js';
import { keep, kept } from '../../../static/kept.js';
import { about, GOAL, underWay } from '../../../static/plan.js';
import { dom } from '../../../static/view.js';
import * as layers from './layers.js';
import { sketch } from './paint.js';
import { button } from './parts.js';
import { masksShown, nameOf } from './reference.js';

const TITLES = { auroc: 'Image AUROC', pixel_auroc: 'Pixel AUROC', dice: 'Dice', pro: 'PRO' };
const FIRST = 'Adopted: all readers of this study see it first.';
const RULE =
  'It learns from lesion masks that readers saved on cases they called “abnormal”. The current detector stays in use until the new one is adopted.';

/** @param {string} name @param {Answers.MeasureBeside} m */
function measure(name, m) {
  const sign = (/** @type {number} */ v) => `${v < 0 ? '−' : '+'}${fixed(Math.abs(v))}`;
  const range = m.interval && `${sign(m.interval[0])} to ${sign(m.interval[1])}`;
  const apart = m.difference == null ? '–' : sign(m.difference);
  const images = el('td', { class: 'dim' }, `${plural(m.images, 'image')}${m.enough ? '' : ', too few'}`);
  return tr([el('th', {}, name), ...[fixed(m.old), fixed(m.new), apart, range || '–'].map(num), images]);
}

/** Shows the picture and the table of both detectors. @param {Answers.LearntRun} run @param {HTMLElement | null} picture */
function comparison(run, picture) {
  const found = run.comparison;
  if (!found) return null;
  const head = ['', 'Old', 'New', 'Difference', '95 %', ''];
  const rows = /** @type {[keyof typeof TITLES, string][]} */ (Object.entries(TITLES)).flatMap(([key, title]) => {
    const figures = found.measures[key];
    return figures ? [measure(title, figures)] : [];
  });
  const vain = 'Learning did not help on the held-out marked cases: the new detector scores as before.';
  return dom`${picture}
    <p class="rv-learn-words">${found.words}</p>
    ${run.share === 0 && el('p', {}, vain)}
    <details>
      <summary>All figures</summary>
      ${run.gain && el('p', { class: 'rv-learn-words' }, run.gain.words)}
      ${rows.length > 0 && table(head, rows, { class: 'rv-summary' })}
    </details>`;
}

/** Returns the run that is shown: the newest, or while that has no result, the one that the same job made before it.
 * @param {Answers.LearntRun[]} learnt newest first */
function shownOf([newest, ...earlier]) {
  const before = newest && !newest.comparison && earlier.find((r) => r.comparison && r.job?.id === newest.job?.id);
  return before || newest;
}

/** Shows the progress, the result, or both while the encoder is fine-tuned.
 * @param {ReviewView} review @param {Answers.LearntRun} run @param {(work: Promise<unknown>) => void} act
 * @param {(beside: boolean, id?: number) => void} read shows the new detector, alone or next to the old one */
function latest(review, run, act, read) {
  const { setup, study } = review;
  const { job, comparison: found } = run;
  const going = job && underWay(job.status);
  const adopted = Boolean(setup?.runs.find((r) => r.id === run.id)?.adopted);
  const change = () => api(`/api/learn/${study}/adopt`, { run: adopted ? '' : run.id }).then(() => renew(review));
  const picture = found?.pictured.length ? beforeAfter(review, found, (id) => read(true, id)) : null;
  const title = `${run.name}, ${moment(run.created)}`;
  const halted = run.status !== 'done' && (job?.error || job?.message || `The run is ${run.status}.`);
  const why = adopted
    ? 'Shows the old detector first again; this one stays in the list'
    : 'All readers of the study see it first; one click brings the old one back';
  const adopting = () =>
    setup?.rights.administer
      ? button(adopted ? 'Roll back' : 'Adopt', why, () => act(change()), { 'aria-pressed': String(adopted) })
      : el('p', { class: 'dim' }, adopted ? FIRST : 'An administrator can adopt it for all readers.');
  const progress = () => dom`
    <p role="status">${job?.status === 'queued' ? 'Waiting in the queue' : job?.message}</p>
    ${found && el('p', { class: 'dim' }, 'Learning goes on. If fine-tuning helps, its result replaces this one here.')}
    <progress max="1" value=${job?.share} aria-label="Learning" />
    ${action('Stop', () => act(api(`/api/training/run/${run.id}/cancel`, {})), { class: 'danger' })}`;
  const result = () => dom`
    ${run.headline && el('p', { class: 'dim' }, title)}
    ${comparison(run, picture) || el('p', { class: 'rv-learn-words' }, halted || 'There is no comparison.')}
    ${run.fault && el('p', { class: 'warn' }, run.fault)}
    ${
      found && [
        action('Use the new detector', () => read(false)),
        button('Side by side', 'Shows both maps side by side', () => read(true)),
        adopting(),
      ]
    }`;
  return dom`<section class="rv-learnt" aria-label="Last learning">
    <h3>${run.headline || title}</h3>
    ${(!going || found) && result()}
    ${going && progress()}
  </section>`;
}

/** @param {Answers.Learning} found */
function offer(found) {
  if (found.none) return found.none;
  const of = found.patients === found.masks ? '' : ` of ${plural(found.patients, 'patient')}`;
  return `${plural(found.masks, 'accepted mask')}${of}, by ${found.readers.join(', ')}. ${found.notes.join(' ')}`;
}

/** @param {ReviewView} review */
async function open(review) {
  const { study } = review;
  if (!study) return;
  const going = () => underWay(now && shownOf(now.learnt)?.job?.status);
  const quiet = review.studio.on('status', () => going() && show());
  const offered = el('p', {});
  const fits = el('select', { 'aria-label': 'Start from' });
  const last = el('div', {});
  const learn = () => act(api(`/api/learn/${study}`, { fit: fits.value }));
  const start = action('Learn', learn, { class: 'main' });
  let drawn = ''; // what the last learning is drawn from
  let now = /** @type {Answers.Learning | null} */ (null);
  const show = async () => {
    const found = await get(`/api/learn/${study}`);
    if (!found.ok) return review.say(found.error, 'bad');
    if (!now) {
      const takes = (/** @type {Answers.LearnFit} */ f) => (f.seconds ? ` · ${about(f.seconds)}` : '');
      fill(fits, options(found.fits.map((f) => [f.id, `${f.title} · ${f.name}${takes(f)}`])));
      if (review.run && found.fits.some((f) => f.id === review.run)) fits.value = review.run;
    }
    const run = shownOf(found.learnt);
    const before = now && shownOf(now.learnt);
    now = found;
    fill(offered, offer(found));
    fits.disabled = start.disabled = going() || found.patients < found.least || !found.fits.length;
    if (before && run?.comparison && (before.id !== run.id || !before.comparison)) await renew(review);
    const state = JSON.stringify([run, review.setup?.runs]);
    if (state !== drawn) fill(last, run && latest(review, run, act, (beside, id) => read(run, beside, id)));
    drawn = state;
  };
  /** @param {Promise<unknown>} work */
  const act = async (work) => {
    start.disabled = true;
    await orToast(work);
    await show();
  };
  /** @param {Answers.LearntRun} run @param {boolean} beside */
  const read = async (run, beside, id = review.detail?.id) => {
    dialog.close();
    await renew(review);
    review.put({ beside: beside ? run.base : null });
    await review.useRun(run.id);
    if (beside) await review.display.setLayout('compare');
    if (id && id !== review.detail?.id) await review.goTo(id);
  };
  await show();
  if (!now) return quiet();
  const content = dom`<h2>Learn from marks</h2>
    ${last}${offered}
    <p class="dim">${RULE}</p>
    <label>Start from${fits}</label>
    <menu>${action('Close', () => dialog.close(), { class: 'plain' })}${start}</menu>`;
  const dialog = sheet('rv-over rv-learn', content, quiet);
}

/** Updates the list of detectors; the current one stays. @param {ReviewView} review */
async function renew(review) {
  const { study } = review;
  const setup = await get('/api/review/open', { study });
  if (!setup.ok || review.study !== study || !review.setup) return;
  review.setup.runs = setup.runs;
  review.redraw();
}

const PUT_AWAY = 'pmsacl.offers'; // learning offers dismissed in this browser, by study

/** @returns {Record<string, string>} */
const away = () => kept(PUT_AWAY, {});

/** The next step of learning: mark five lesions, learn from them, see the gain; again after 10, 20 and 40.
 * @param {ReviewView} review */
export function learnOffer(review) {
  const element = review.$('.rv-offer');
  let due = 0;
  let goes = false; // learning in progress while reading
  review.studio.on('status', () => goes && look());
  /** @param {string} key @param {Page.Child} words @param {HTMLElement | null} act @param {string} [no] */
  const line = (key, words, act, no = 'Not now') => {
    const { study } = review;
    element.hidden = !study || away()[study] === key;
    const put = () => {
      element.hidden = true;
      keep(PUT_AWAY, { ...away(), [study || '']: key }); // if nothing is stored, the line appears again
    };
    const later = action(no, put, { class: 'plain', title: 'Hides this until there are more marks' });
    fill(element, el('span', {}, words), act, later);
  };
  const show = () => open(review);
  const look = async () => {
    clearTimeout(due);
    goes = false;
    const { study, setup } = review;
    const asks = study && setup?.runs.length && !setup.blinded;
    const found = asks ? await get(`/api/learn/${study}`) : null;
    element.hidden = true;
    if (!found?.ok || study !== review.study || !setup) return; // not for a reader with a blind reading elsewhere
    const run = shownOf(found.learnt);
    const fit = found.fits.find((f) => f.id === review.run) || found.fits[0];
    goes = underWay(run?.job?.status);
    if (goes && !run.comparison) {
      const far = run.job?.status === 'running' ? `: ${Math.round(100 * run.job.share)} %` : ', queued';
      const words = `Learning from ${plural(run.masks, 'mask')}${far}`;
      line(`${run.id} goes`, words, button('Show', run.name, show), 'Hide');
    } else if (found.due && fit) {
      const start = async () => {
        await orToast(api(`/api/learn/${study}`, { fit: fit.id }));
        await look();
      };
      const takes = fit.seconds ? `${about(fit.seconds)}, ` : '';
      const title = `Learns from ${fit.name}, ${takes}in the background; you keep reading with the current detector`;
      const words = `${plural(found.masks, 'lesion')} marked. Learn from ${found.masks === 1 ? 'it' : 'them'} now?`;
      line(`${found.next}`, words, button('Learn', title, start));
    } else if (!run && fit && found.decided && found.masks < GOAL) {
      const bar = el('progress', { max: GOAL, value: found.masks, 'aria-label': 'Lesions marked' });
      const far = el('span', { class: 'rv-far num' }, `${found.masks} of ${GOAL}`);
      line('goal', ['Mark five lesions: a detector learns from them.', el('span', {}, bar, far)], null);
    } else if (run?.headline && !setup.runs.some((r) => r.id === run.id && r.adopted)) {
      const compare = button('Before and after', 'Shows unseen cases before and after learning', show);
      line(run.id, el('b', {}, run.headline), compare);
    }
  };
  const marked = () => {
    clearTimeout(due);
    due = setTimeout(look, 500);
  };
  review.put({ marked });
  review.$('.rv-learn-open').onclick = show;
}

// What learning from marks changed: unseen cases, outlined before and after, as one picture.
const SIDE = 150; // pixels of a square

/** @param {ReviewView} review @param {Answers.RunComparison} found @param {(id: number) =>
 * void} open shows a case side by side */
function beforeAfter(review, { base, run, pictured, measures }, open) {
  const element = el('figure', { class: 'rv-before-after', hidden: true });
  const column = async (/** @type {number} */ id) => {
    const found = await get(`/api/review/case/${id}`, { run });
    if (!found.ok || found.case.study !== review.study || found.case.blind) return null;
    const detail = found.case;
    const mask = masksShown(review, detail)[0];
    const [picture, roi, lesion, ...heats] = await Promise.all([
      layers.pictures.get(`${id}/${detail.v}`, detail),
      layers.rois.get(`${id}/${detail.v}`, id, detail.v),
      mask ? layers.masks.get(`${id}/${mask.id}`, id, mask.id) : null,
      ...[base, run].map((one) => layers.heats.get(`${id}/${one}`, id, one)),
    ]);
    const cells = heats.map((heat, i) => {
      const side = SIDE * (devicePixelRatio || 1);
      const canvas = el('canvas', { width: side, height: side, role: 'img' });
      canvas.setAttribute('aria-label', `${nameOf(review, detail)}, ${i ? 'after' : 'before'}`);
      const made = heat && layers.layer({ ...heat, made: undefined }, picture, review.show.colours, roi);
      if (made) layers.cutAt(made, null);
      const context = canvas.getContext('2d');
      if (context) sketch(context, picture, made, lesion);
      return canvas;
    });
    const title = `Compare before and after on ${nameOf(review, detail)}`;
    return button(cells, title, () => open(id), { class: 'plain', 'aria-label': title });
  };
  Promise.all(pictured.map((id) => column(id).catch(() => null))).then((columns) => {
    const there = columns.filter((one) => one !== null);
    element.hidden = !there.length;
    const which = measures.dice?.new == null ? 'with the highest scores' : 'from the best change to the worst';
    const content = dom`<div><div aria-hidden="true"><span>Before</span><span>After</span></div>${there}</div>
      <figcaption class="dim">Unseen cases, ${which}. White: detector; blue: mask, if shown.</figcaption>`;
    fill(element, content);
  });
  return element;
}
