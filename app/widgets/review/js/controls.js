// The panel on the right: meaning of the score, heat map, image, lesion mask.
import { el, options } from '../../../static/dom.js';
import { fixed, percent } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { aboutPanel } from './about_panel.js';
import { gradient, MAPS } from './colours.js';
import { explained } from './explained.js';
import { findingsPanel } from './findings.js';
import { STEPS } from './heat.js';
import { learnButton, learnOffer } from './learn.js';
import { maskPanel } from './mask_panel.js';
import { button, choice, press, slider, toggle } from './parts.js';
import { tagPanel } from './tags.js';

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
  const safe = { title: 'Colour map, safe for colour-blind eyes', 'aria-label': 'Colour map' };
  const colours = el('select', safe, options(MAPS.map((name) => [name, name])));
  colours.onchange = () => display.set({ colours: colours.value });
  const title = 'One scale for all cases of this run; values usual in normal images are transparent';
  const legend = el('div', { class: 'rv-legend', title });
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
  const where = 'Heat map only inside the region of interest; off: everywhere, with the region outlined (R)';
  const roi = toggle('Region', 'R', () => review.act('roi'), where);
  const outline = el('p', { class: 'dim rv-outline' });
  const beside = 'The most similar normal training image next to the case (X)';
  const nearest = toggle('Nearest', 'X', () => review.act('nearest'), beside);
  return { threshold, outline, opacity, colours, legend, overlay, roi, nearest };
}

/** What the threshold finds. */
function measures() {
  const dd = () => el('dd', {}, '–');
  const parts = { dice: dd(), iou: dd(), area: dd(), count: dd() };
  parts.dice.className = 'rv-dice';
  const row = (/** @type {string} */ name, /** @type {HTMLElement} */ value, /** @type {string} */ title) =>
    dom`<div title=${title}><dt>${name}</dt>${value}</div>`;
  const element = dom`<dl class="rv-numbers num">
    ${row('Dice', parts.dice, 'Overlap of the contour with the lesion mask on screen')}
    ${row('IoU', parts.iou, 'Intersection over union with the lesion mask on screen')}
    ${row('Area', parts.area, 'Share of the image at or above the threshold')}
    ${row('Regions', parts.count, 'Connected regions at or above the threshold')}
  </dl>`;
  return { parts, element };
}

/** The percentile on a line from 0 to 100, with the flagging threshold marked, and the run's certainty. */
function percentileScale() {
  const dot = el('i', { class: 'rv-dot' });
  const number = el('b', { class: 'num' });
  const flag = el('span', { class: 'rv-flag' });
  const words = el('p', { class: 'rv-words' });
  const [members, steady] = [0, 1].map(() => el('p', { class: 'rv-sure', hidden: true }));
  const element = dom`<div class="rv-scale">
    <div class="rv-scale-top">${number}${flag}</div>
    <div class="rv-line" role="img" aria-label="Percentile of held-out normals"><i class="rv-cut" />${dot}</div>
    ${words}${members}${steady}
  </div>`;
  /** @param {Answers.Reading | null | undefined} reading */
  const set = (reading) => {
    const percentile = reading?.percentile;
    const known = percentile != null;
    number.textContent = known ? `${percentile.toFixed(1)} %` : '–';
    flag.textContent = known ? (reading?.flagged ? 'flagged' : 'not flagged') : '';
    flag.className = `rv-flag ${known && reading?.flagged ? 'on' : ''}`;
    dot.hidden = !known;
    if (known) dot.style.left = `${percentile}%`;
    for (const [paragraph, remark] of /** @type {const} */ ([
      [members, reading?.members],
      [steady, reading?.steady],
    ])) {
      paragraph.hidden = !remark;
      if (!remark) continue;
      paragraph.textContent = remark.words;
      paragraph.title = remark.more;
      paragraph.classList.toggle('not', !remark.ok);
    }
    words.textContent = reading ? reading.words : 'This run has not scored the case yet.';
  };
  return { element, set };
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
  const ai = dom`<section class="rv-ai">
    <div class="rv-head"><h3 aria-level="2">Reading</h3>${learnButton(review)}</div>
    ${detectors}${scale.element}${map.overlay.row}${map.legend}${learnOffer(review)}${compared.element}
  </section>`;
  const blind =
    'Decide first. The score, the heat map and the lesion mask are shown once your decision is on disk; then you may ' +
    'keep it or change it. Where a lesion is can be said before.';
  const veil = dom`<section class="rv-veil" hidden><h3>Blind reading</h3><p>${blind}</p></section>`;
  const ofMap = dom`<div class="rv-of-map">
    <div class="rv-head rv-toggles">${map.roi}${map.nearest}${map.colours}</div>
    ${map.opacity.row}${map.threshold.row}${map.outline}${numbers.element}
  </div>`;
  const turn = (/** @type {string} */ act, /** @type {string} */ text, /** @type {string} */ name, title = name) =>
    button(text, title, () => review.act(act), { 'aria-label': name });
  const folded = dom`<details class="rv-display" open=${review.show.display}>
    <summary><h3>Display</h3></summary>
    ${ofMap}
    <div class="rv-head">${image.presets}${image.invert}${image.keep}${image.reset}</div>
    ${image.level.row}${image.width.row}
    <div class="rv-head rv-window" role="group" aria-label="Orientation of the view">
      ${turn('across', '⇆', 'Flip left to right', 'Flip the view left to right ( , )')}
      ${turn('down', '⇅', 'Flip upside down', 'Flip the view upside down ( . )')}
      ${turn('right', '↻ 90°', 'Turn right', 'Turn the view by 90° to the right (J)')}
    </div>
  </details>`;
  folded.addEventListener('toggle', () => {
    if (folded.open !== review.show.display) review.display.set({ display: folded.open });
  });
  const element = dom`<aside class="rv-side panel" aria-label="Case panel">
    ${veil}${ai}${found.element}${mask.element}<section>${folded}</section>
    ${tagged.element}${about.element}<section>${review.history.element}</section>
  </aside>`;
  const sections = { compared, mask, found, tagged, about, detectors, ai, veil, folded, ofMap, element };
  return { ...map, ...image, ...sections, scale, numbers: numbers.parts };
}

/** @param {Controls} side @param {ReviewView} review */
export function reflect(side, review) {
  const { show, detail, study, setup, run } = review;
  // In a trial's list a case has no result if its arm shows none, or not yet.
  const without = Boolean(detail?.blind || (setup?.trial && !(run && detail?.readings?.[run])));
  side.ai.hidden = !study || without;
  side.ofMap.hidden = !detail || without;
  side.veil.hidden = !detail?.blind;
  side.overlay.set(show.heat ? (show.contour ? 'both' : 'heat') : show.contour ? 'contour' : 'off');
  if (side.folded.open !== show.display) side.folded.open = show.display;
  press(side.roi, show.inside);
  press(side.nearest, show.nearest);
  press(side.invert, show.invert);
  side.colours.value = show.colours;
  side.legend.style.background = gradient(show.colours);
  side.opacity.set(Math.round(100 * show.opacity));
  for (const panel of [side.mask, side.found, side.tagged, side.about]) panel.reflect();
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
  const presets = el('select', { 'aria-label': 'Window presets', title: 'Window presets' });
  presets.onchange = () => display.preset(presets.value);
  const invert = toggle('Invert', 'I', () => review.act('invert'));
  const kept = 'Keep this window for the next cases; otherwise each case starts with its full range';
  const keep = toggle('Keep', '', () => display.keepWindow(!review.show.keepWindow), kept);
  const reset = button('Reset', 'Back to the full range', () => display.preset(''), { disabled: true });
  return { level, width, presets, invert, keep, reset };
}
