// The panel on the right: meaning of the score, heat map, image, lesion mask.
import { action, el } from '../../../static/dom.js';
import { fixed, percent } from '../../../static/format.js';
import { aboutPanel } from './about_panel.js';
import { gradient, MAPS } from './colours.js';
import { explained } from './explained.js';
import { findingsPanel } from './findings.js';
import { STEPS } from './heat.js';
import { learnButton, learnOffer } from './learn.js';
import { maskPanel } from './mask_panel.js';
import { choice, slider, toggle } from './parts.js';
import { percentileScale } from './scale.js';
import { tagPanel } from './tag_panel.js';
import { turnButtons } from './turning.js';

/** @typedef {ReturnType<typeof controls>} Controls */

/** @param {ReviewView} review */
function heatControls(review) {
  const { show, display } = review;
  const threshold = slider('Threshold', {
    max: STEPS,
    value: STEPS / 2,
    title: 'Threshold of the contour ( [ and ] )',
    text: (v) => percent(v / STEPS),
    input: (v) => review.threshold.set(v),
  });
  threshold.range.classList.add('rv-threshold');
  const opacity = slider('Opacity', {
    value: Math.round(100 * show.opacity),
    title: 'How much of the heat map covers the image',
    text: (v) => `${v} %`,
    input: (v) => display.set({ opacity: v / 100 }),
  });
  const colours = el(
    'select',
    {
      title: 'Colour map, safe for colour-blind eyes',
      'aria-label': 'Colour map',
      onchange: () => display.set({ colours: colours.value }),
    },
    MAPS.map((m) => el('option', { value: m }, m)),
  );
  colours.value = show.colours;
  const legend = el('div', {
    class: 'rv-legend',
    title: 'One scale for all cases of this run; values usual in normal images are transparent',
  });
  const overlay = choice(
    'Heat map and contour',
    [
      ['off', 'Off'],
      ['contour', 'Outline', 'Outline of flagged images (O)'],
      ['heat', 'Heat map', 'Heat map (H)'],
      ['both', 'Both'],
    ],
    (key) => {
      const contour = ['contour', 'both'].includes(key);
      review.ask(contour);
      display.set({ heat: ['heat', 'both'].includes(key), contour });
    },
    null,
  );
  const roi = toggle('Region', 'R', () => review.act('roi'));
  roi.title = 'Heat map only inside the region of interest; off: everywhere, with the region outlined (R)';
  const outline = el('p', { class: 'dim rv-outline' });
  const nearest = toggle('Nearest', 'X', () => review.act('nearest'));
  nearest.title = 'The most similar normal training image next to the case (X)';
  return { threshold, outline, opacity, colours, legend, overlay, roi, nearest };
}

function measures() {
  const parts = {
    dice: el('dd', { class: 'rv-dice' }, '–'),
    iou: el('dd', {}, '–'),
    area: el('dd', {}, '–'),
    count: el('dd', {}, '–'),
  };
  /** @type {[string, HTMLElement, string][]} */
  const rows = [
    ['Dice', parts.dice, 'Overlap of the contour with the lesion mask on screen'],
    ['IoU', parts.iou, 'Intersection over union with the lesion mask on screen'],
    ['Area', parts.area, 'Share of the image at or above the threshold'],
    ['Regions', parts.count, 'Connected regions at or above the threshold'],
  ];
  const list = rows.map(([name, value, title]) => el('div', { title }, el('dt', {}, name), value));
  return { parts, element: el('dl', { class: 'rv-numbers num' }, list) };
}

/** @param {ReviewView} review */
export function controls(review) {
  const scale = percentileScale();
  const map = heatControls(review);
  const image = imageControls(review);
  const numbers = measures();
  const mask = maskPanel(review);
  const compared = explained(review);
  const found = findingsPanel(review);
  const tagged = tagPanel(review);
  const about = aboutPanel(review);
  const detectors = el('div', { class: 'rv-choice', role: 'group', 'aria-label': 'Detector' });
  const ai = el(
    'section',
    { class: 'rv-ai' },
    el('div', { class: 'rv-head' }, el('h3', { 'aria-level': 2 }, 'Reading'), learnButton(review)),
    detectors,
    scale.element,
    map.overlay.row,
    map.legend,
    learnOffer(review),
    compared.element,
  );
  const blind =
    'Decide first. The score, the heat map and the lesion mask are shown once your decision is on disk; then you may ' +
    'keep it or change it. Where a lesion is can be said before.';
  const veil = el('section', { class: 'rv-veil', hidden: true }, el('h3', {}, 'Blind reading'), el('p', {}, blind));
  const ofMap = el(
    'div',
    { class: 'rv-of-map' },
    el('div', { class: 'rv-head rv-toggles' }, map.roi, map.nearest, map.colours),
    map.opacity.row,
    map.threshold.row,
    map.outline,
    numbers.element,
  );
  const folded = el(
    'details',
    { class: 'rv-display', open: review.show.display },
    el('summary', {}, el('h3', {}, 'Display')),
    ofMap,
    el('div', { class: 'rv-head' }, image.presets, image.invert, image.keep, image.reset),
    image.level.row,
    image.width.row,
    turnButtons(review),
  );
  folded.addEventListener('toggle', () => {
    if (folded.open !== review.show.display) review.display.set({ display: folded.open });
  });
  const element = el(
    'aside',
    { class: 'rv-side panel', 'aria-label': 'Case panel' },
    veil,
    ai,
    found.element,
    mask.element,
    el('section', {}, folded),
    tagged.element,
    about.element,
    el('section', {}, review.history.element),
  );
  return {
    ...map,
    ...image,
    scale,
    numbers: numbers.parts,
    compared,
    mask,
    found,
    tagged,
    about,
    detectors,
    ai,
    veil,
    folded,
    ofMap,
    element,
  };
}

/** @param {Controls} side @param {ReviewView} review */
export function reflect(side, review) {
  const { show, detail, study, setup, run } = review;
  // In a trial's list a case has no result if its arm shows none, or not yet.
  const without = Boolean(detail?.blind || (setup?.trial && !(run && detail?.readings?.[run])));
  side.ai.hidden = !study || without;
  side.ofMap.hidden = !detail || without;
  side.veil.hidden = !detail?.blind;
  const press = (/** @type {Element} */ button, /** @type {boolean} */ on) =>
    button.setAttribute('aria-pressed', String(on));
  side.overlay.set(show.heat ? (show.contour ? 'both' : 'heat') : show.contour ? 'contour' : 'off');
  if (side.folded.open !== show.display) side.folded.open = show.display;
  press(side.roi, show.inside);
  press(side.nearest, show.nearest);
  press(side.invert, show.invert);
  side.colours.value = show.colours;
  side.legend.style.background = gradient(show.colours);
  side.opacity.set(Math.round(100 * show.opacity));
  side.mask.reflect();
  side.found.reflect();
  side.tagged.reflect();
  side.about.reflect();
}

/** Shows what the threshold finds; null without a heat map.
 * @param {Controls} side @param {{at: import('./measure.js').Found | null, components?: number, pixels: number} |
 * null} found */
export function numbers({ numbers: parts }, found) {
  const at = found?.at;
  parts.dice.textContent = fixed(at?.dice);
  parts.iou.textContent = fixed(at?.iou);
  parts.area.textContent = at ? percent(at.share) : '–';
  parts.area.title = at ? `${at.area} of ${found?.pixels} pixels` : '';
  parts.count.textContent = String(found?.components ?? '–');
}

// The panel's section on the image itself: window and level, inversion.
/** @param {ReviewView} review */
function imageControls(review) {
  const { display } = review;
  const level = slider('Level', {
    max: 255,
    value: 128,
    title: 'Window level (drag with the right button)',
    input: (v) => display.setWindow({ centre: v }),
  });
  const width = slider('Window', {
    min: 1,
    max: 255,
    value: 255,
    title: 'Window width (drag with the right button)',
    input: (v) => display.setWindow({ width: v }),
  });
  const presets = el('select', {
    'aria-label': 'Window presets',
    title: 'Window presets',
    onchange: () => display.preset(presets.value),
  });
  const invert = toggle('Invert', 'I', () => review.act('invert'));
  const keep = action('Keep', () => display.keepWindow(!review.show.keepWindow), {
    class: 'rv-toggle',
    title: 'Keep this window for the next cases; otherwise each case starts with its full range',
    'aria-pressed': 'false',
  });
  const reset = action('Reset', () => display.preset(''), { title: 'Back to the full range', disabled: true });
  return { level, width, presets, invert, keep, reset };
}
