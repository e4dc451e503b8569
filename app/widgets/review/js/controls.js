// The panel on the right: meaning of the score, heat map, image, lesion mask.
import { fill, finderOfAll, options } from '../../../static/dom.js';
import { fixed, percent } from '../../../static/format.js';
import { aboutPanel } from './about_panel.js';
import { gradient, MAPS } from './colours.js';
import { explained } from './explained.js';
import { findingsPanel } from './findings.js';
import { STEPS } from './heat.js';
import { learnOffer } from './learn.js';
import { maskPanel } from './mask_panel.js';
import { choice, press, slider } from './parts.js';
import { tagPanel } from './tags.js';

/** @typedef {ReturnType<typeof controls>} Controls */

/** @param {ReviewView} review */
export function controls(review) {
  const { $, show, display } = review;
  const text = (/** @type {number} */ v) => percent(v / STEPS);
  const threshold = slider($('.rv-threshold'), { text, input: (v) => review.threshold.set(v) });
  const opacity = slider($('.rv-opacity'), { text: (v) => `${v} %`, input: (v) => display.set({ opacity: v / 100 }) });
  const level = slider($('.rv-level'), { input: (v) => display.setWindow({ centre: v }) });
  const width = slider($('.rv-width'), { input: (v) => display.setWindow({ width: v }) });
  const colours = $('.rv-colours');
  fill(colours, options(MAPS.map((name) => [name, name])));
  colours.onchange = () => display.set({ colours: colours.value });
  const overlay = choice($('.rv-overlay'), (key) => {
    const contour = ['contour', 'both'].includes(key);
    review.ask(contour);
    display.set({ heat: ['heat', 'both'].includes(key), contour });
  });
  const presets = $('.rv-presets');
  presets.onchange = () => display.preset(presets.value);
  const [keep, reset] = [$('.rv-keep'), $('.rv-reset')];
  keep.onclick = () => display.keepWindow(!show.keepWindow);
  reset.onclick = () => display.preset('');
  const folded = $('.rv-display');
  folded.ontoggle = () => {
    if (folded.open !== show.display) display.set({ display: folded.open });
  };
  learnOffer(review);
  $('.rv-history').append(review.history.element);
  const panels = { mask: maskPanel(review), found: findingsPanel(review), tagged: tagPanel(review) };
  const of = { compared: explained(review), about: aboutPanel(review) };
  const image = { level, width, presets, keep, reset };
  return { threshold, opacity, colours, overlay, folded, ...image, ...panels, ...of };
}

/** @param {Controls} side @param {ReviewView} review */
export function reflect(side, review) {
  const { $, show, detail, study, setup, run } = review;
  // In a trial's list a case has no result if its arm shows none, or not yet.
  const without = Boolean(detail?.blind || (setup?.trial && !(run && detail?.readings?.[run])));
  $('.rv-ai').hidden = !study || without;
  $('.rv-of-map').hidden = !detail || without;
  $('.rv-veil').hidden = !detail?.blind;
  side.overlay(show.heat ? (show.contour ? 'both' : 'heat') : show.contour ? 'contour' : 'off');
  if (side.folded.open !== show.display) side.folded.open = show.display;
  press($('[data-act=roi]'), show.inside);
  press($('[data-act=nearest]'), show.nearest);
  press($('[data-act=invert]'), show.invert);
  side.colours.value = show.colours;
  $('.rv-legend').style.background = gradient(show.colours);
  side.opacity.set(Math.round(100 * show.opacity));
  for (const panel of [side.mask, side.found, side.tagged, side.about]) panel.reflect();
}

/** Shows what the threshold finds; null without a heat map. @param {ReviewView} review
 * @param {{at: import('./measure.js').Found | null, components?: number, pixels: number} | null} found */
export function numbers({ $ }, found) {
  const [dice, iou, area, count] = finderOfAll($('.rv-numbers'))('dd');
  const at = found?.at;
  dice.textContent = fixed(at?.dice);
  iou.textContent = fixed(at?.iou);
  area.textContent = at ? percent(at.share) : '–';
  area.title = at ? `${at.area} of ${found?.pixels} pixels` : '';
  count.textContent = String(found?.components ?? '–');
}

/** Shows the percentile on a line from 0 to 100, with the flagging threshold marked, and the run's certainty.
 * @param {ReviewView} review @param {Answers.Reading | null | undefined} reading */
export function percentileScale({ $ }, reading) {
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
  $('.rv-words').textContent = reading ? reading.words : 'This run has not scored the case yet.';
}
