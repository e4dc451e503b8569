// What learning from marks changed: unseen cases, outlined before and after, as one picture.
import { get } from '../../../static/api.js';
import { el, fill } from '../../../static/dom.js';
import * as layers from './layers.js';
import { sketch } from './paint.js';
import { masksShown, nameOf } from './reference.js';

const SIDE = 150; // pixels of a square

/** @param {ReviewView} review @param {Answers.LearntBeside} found @param {(id: number) =>
 * void} open shows a case side by side */
export function beforeAfter(review, { base, run, pictured, measures }, open) {
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
    const title = `Compare on ${nameOf(review, detail)}`;
    return el('button', { type: 'button', class: 'plain', title, 'aria-label': title, onclick: () => open(id) }, cells);
  };
  Promise.all(pictured.map((id) => column(id).catch(() => null))).then((columns) => {
    const there = columns.filter((one) => one !== null);
    element.hidden = !there.length;
    const heads = el('div', { 'aria-hidden': 'true' }, el('span', {}, 'Before'), el('span', {}, 'After'));
    const which = measures.dice?.new == null ? 'with the highest scores' : 'from the best change to the worst';
    const caption = `Unseen cases, ${which}. White: detector; blue: mask, if shown.`;
    fill(element, el('div', {}, heads, there), el('figcaption', { class: 'dim' }, caption));
  });
  return element;
}
