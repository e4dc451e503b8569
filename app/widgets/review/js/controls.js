// The panel on the right: meaning of the score, heat map, image, lesion mask.
import { el, fill, finderOfAll, options } from '../../../static/dom.js';
import { fixed, moment, percent } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { gradient, MAPS } from './colours.js';
import { explained } from './explained.js';
import { findingsPanel } from './findings.js';
import { STEPS } from './heat.js';
import { learnOffer } from './learn.js';
import { maskPanel } from './mask_panel.js';
import { choice, press, slider } from './parts.js';
import { nameOf } from './reference.js';
import { tagPanel } from './tags.js';

/** @param {ReviewView} review */
export function controls(review) {
  const { $, show, display, threshold } = review;
  const text = (/** @type {number} */ v) => percent(v / STEPS);
  const cut = slider($('.rv-threshold'), { text, input: (v) => threshold.set(v) });
  const opacity = slider($('.rv-opacity'), { text: (v) => `${v} %`, input: (v) => display.set({ opacity: v / 100 }) });
  const level = slider($('.rv-level'), { input: (v) => display.setWindow({ centre: v }) });
  const width = slider($('.rv-width'), { input: (v) => display.setWindow({ width: v }) });
  const [colours, presets, keep] = ['.rv-colours', '.rv-presets', '.rv-keep'].map($);
  const reset = $('.rv-reset');
  fill(colours, options(MAPS.map((name) => [name, name])));
  colours.onchange = () => display.set({ colours: colours.value });
  const overlay = choice($('.rv-overlay'), (key) => {
    const contour = ['contour', 'both'].includes(key);
    review.ask(contour);
    display.set({ heat: ['heat', 'both'].includes(key), contour });
  });
  presets.onchange = () => display.preset(presets.value);
  keep.onclick = () => display.set({ keepWindow: !show.keepWindow });
  reset.onclick = () => display.preset('');
  folding(review, 'display');
  learnOffer(review);
  $('.rv-history').append(review.history.element);
  for (const panel of [maskPanel, findingsPanel, tagPanel, explained, aboutPanel]) panel(review);

  /** Shows the window, and the presets that suit the image. */
  function windowing() {
    const { centre, width: wide } = display.window();
    level.range.max = width.range.max = String(display.top);
    level.set(centre);
    width.set(wide);
    const names = display.presets().map(({ name }) => name);
    if (presets.options[1]?.value !== names[0]) {
      const named = options([['', 'full range'], ...names.map((name) => /** @type {const} */ ([name, name]))]);
      fill(presets, named, el('option', { value: 'own', hidden: true }, 'custom window'));
    }
    presets.value = show.window?.name ?? '';
    reset.disabled = !show.window;
    press(keep, show.keepWindow);
  }

  review.shows(() => {
    const { detail, study, setup, run, heat, coming } = review;
    const reading = run ? detail?.readings?.[run] : null;
    // In a trial's list a case has no result if its arm shows none, or not yet.
    const without = Boolean(detail?.blind || (setup?.trial && !reading));
    $('.rv-ai').hidden = !study || (coming && !detail) || without;
    $('.rv-of-map').hidden = !detail || without;
    $('.rv-veil').hidden = !detail?.blind;
    overlay(show.heat ? (show.contour ? 'both' : 'heat') : show.contour ? 'contour' : 'off');
    press($('[data-act=roi]'), show.inside);
    press($('[data-act=nearest]'), show.nearest);
    press($('[data-act=invert]'), show.invert);
    colours.value = show.colours;
    $('.rv-legend').style.background = gradient(show.colours);
    opacity.set(Math.round(100 * show.opacity));
    cut.range.disabled = !heat;
    cut.set(threshold.current());
    $('.rv-outline').textContent = threshold.step === null && heat ? outlineWords(heat.map) : '';
    windowing();
    numbers(review);
    percentileScale(review, reading);
  });
}

/** Keeps a part of the panel folded, or open, as the reader left it.
 * @param {ReviewView} review @param {'display' | 'about'} part */
function folding(review, part) {
  const { show, display } = review;
  const element = review.$(`.rv-${part}`);
  element.ontoggle = () => element.open !== show[part] && display.set({ [part]: element.open });
  review.shows(() => (element.open = show[part]));
}

/** Describes how a map is outlined. @param {import('./heat.js').HeatMap} map */
function outlineWords({ share, scale, core }) {
  if (share === null)
    return 'Outlined at one level for all images: 1 % of a typical normal image is above it. Score the run again for outlines adapted to each image.';
  if (scale.pixel === core) return 'Nothing here exceeds the values of typical normal images.';
  return `Outlined above ${Math.round(100 * share)} % of the range from typical normal values to this image's maximum; the share was learnt from lesions pasted into held-out normals. It does not affect flags.`;
}

/** Shows what the threshold finds. @param {ReviewView} review */
function numbers({ $, threshold, heat, picture }) {
  const [dice, iou, area, count] = finderOfAll($('.rv-numbers'))('dd');
  const at = threshold.measured();
  dice.textContent = fixed(at?.dice);
  iou.textContent = fixed(at?.iou);
  area.textContent = at ? percent(at.share) : '–';
  area.title = at && picture ? `${at.area} of ${picture.w * picture.h} pixels` : '';
  count.textContent = String(heat?.components ?? '–');
}

/** Shows the percentile on a line from 0 to 100, with the flagging threshold marked, and the run's certainty.
 * @param {ReviewView} review @param {Answers.Reading | null | undefined} reading */
function percentileScale({ $, detail }, reading) {
  const percentile = reading?.percentile;
  const known = percentile != null;
  $('.rv-scale-top b').textContent = known ? `${percentile.toFixed(1)} %` : '–';
  $('.rv-flag').textContent = known ? (reading?.flagged ? 'flagged' : 'not flagged') : '';
  $('.rv-flag').className = `rv-flag ${known && reading?.flagged ? 'on' : ''}`;
  $('.rv-dot').hidden = !known;
  if (known) $('.rv-dot').style.left = `${percentile}%`;
  for (const name of /** @type {const} */ (['members', 'steady'])) {
    const remark = reading?.[name];
    const paragraph = $(`[data-remark=${name}]`);
    paragraph.hidden = !remark;
    if (!remark) continue;
    paragraph.textContent = remark.words;
    paragraph.title = remark.more;
    paragraph.classList.toggle('not', !remark.ok);
  }
  const unscored = detail ? 'This run has not scored the case yet.' : '';
  $('.rv-words').textContent = reading ? reading.words : unscored;
}

// Metadata of the case on screen: file, size, spacing, patient's key, import. In a blind reading only its size.

/** @param {Answers.CaseDetail['spacing']} spacing */
function spaced(spacing) {
  if (!spacing) return '';
  const [x, y] = [spacing.x, spacing.y].map((v) => String(Number(v.toPrecision(4))));
  return `${x === y ? x : `${x} × ${y}`} mm a pixel${spacing.at === 'detector' ? ', at the detector' : ''}`;
}

/** Builds the rows of the panel; unknown values are skipped.
 * @param {Answers.CaseDetail} detail @param {string} name as it may be shown @returns {[title: string, value: string, tip?:
 * string][]} */
export function known(detail, name) {
  const { about, width, height, bits } = detail;
  const black = about?.shown_from;
  const keyed = 'Start of a keyed hash: the same for all images of a patient; it cannot be reversed';
  const burned = 'Burned-in text may name a patient: check before sharing images';
  /** @type {[string, string, string?][]} */
  const rows = [
    ['File', name],
    ['Number', about ? String(detail.id) : '', 'The case’s number in exported tables'],
    ['Size', `${width} × ${height} pixels`],
    ['Depth', bits ? `${bits} bits` : ''],
    ['Format', about?.format || ''],
    ['Modality', detail.modality || ''],
    ['Spacing', spaced(detail.spacing)],
    ['Grey range', black ? black.join(' to ') : '', 'Stored values for black and white; one scale per scanner'],
    ['Series', about && (detail.frames || 0) > 1 ? `one of ${detail.frames} images` : ''],
    ['Patient', about?.patient || '', keyed],
    ['Study', about ? `${about.study}, ${detail.split}` : ''],
    ['Imported', about ? moment(about.added) : ''],
    ['Text', about?.text ? 'likely in the image' : '', burned],
    ['Header', (about?.odd ?? []).join('; '), 'Implausible values in the file'],
  ];
  return rows.filter(([, value]) => value);
}

/** @param {ReviewView} review */
function aboutPanel(review) {
  const { $ } = review;
  folding(review, 'about');
  const row = (/** @type {(string | undefined)[]} */ [title, value, tip]) =>
    dom`<div title=${tip}><dt>${title}</dt><dd>${value}</dd></div>`;
  review.shows(() => {
    const { detail } = review;
    $('.rv-about').hidden = !detail;
    if (!detail) return;
    $('.rv-about p').hidden = Boolean(detail.about);
    fill($('.rv-about dl'), known(detail, nameOf(review, detail)).map(row));
  });
}
