// The frame of Review: toolbar, panes, and the bar with the three decisions.
import { el, fill } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';
import { decisionBar } from './decision_bar.js';
import { label } from './keys.js';
import { inWords } from './orientation.js';
import { LAYOUTS } from './paint.js';
import { button, choice, endOf, icon, inMiddle, press } from './parts.js';
import { nameOf } from './reference.js';
import { gestures } from './view.js';

const RULER = 'M1 11.5 11.5 1 15 4.5 4.5 15ZM4 8.5l1.6 1.6M6.5 6l1.6 1.6M9 3.5l1.6 1.6';
const CORNERS = 'M1.5 6V1.5H6M10 1.5h4.5V6M14.5 10v4.5H10M6 14.5H1.5V10';
const NO_SECOND = 'No second detector has scored this case';
const CAPTIONS = { image: 'Image', mask: 'Lesion mask', nearest: 'Nearest normal training image' };

/** Describes this reader's state of a case. @param {Answers.CaseDetail | null} detail */
function standing(detail) {
  if (!detail) return { text: '', last: undefined };
  const mine = detail.mine.filter((r) => r.active);
  const last = mine[mine.length - 1];
  const first = mine.find((r) => r.stage === 'first');
  const once = `you said ${last?.decision}`;
  const own = last?.stage === 'second' ? `first ${first?.decision}, then ${last.decision}` : once;
  const others = (detail.others || []).map((o) => `${o.reader}: ${o.decision}`).join(', ');
  return { text: [last ? own : 'unread', others].filter(Boolean).join(' · '), last };
}

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys @param {(name: string) => void} act */
export function frame(review, keys, act) {
  const title = el('b', { class: 'rv-title' });
  const state = el('span', { class: 'rv-state dim' });
  const why = 'Saved automatically; not part of any export';
  const drafted = el('span', { class: 'rv-drafted', title: why }, 'draft, not saved');
  const zoom = el('span', { class: 'rv-zoom num dim' });
  const layouts = choice(
    'Panes',
    [
      ['one', 'One', 'One pane (L)'],
      ['two', 'Two', 'Image beside overlay (L)'],
      ['three', 'Three', 'Image, overlay, mask (L)'],
      ['compare', 'Compare', 'Two detectors side by side'],
    ],
    (key) => review.display.setLayout(key),
    review.show.layout,
  );
  const settle = () => {
    review.put({ adjudicating: !review.adjudicating });
    press(judge, review.adjudicating);
  };
  const judge = button('Adjudicate', 'Your decisions settle disagreements between readers', settle, { hidden: true });
  const ruler = icon(RULER, 'Ruler', 'Measure a length (W)', () => act('ruler'));
  const top = dom`<div class="rv-top">
    ${title}${state}${drafted}<span class="rv-gap" />${judge}${zoom}
    ${button('Fit', 'Fit the image, upright (F)', () => act('fit'))}
    ${button('1:1', 'One image pixel per screen pixel (0)', () => act('full'))}
    ${ruler}${icon(CORNERS, 'Whole screen', 'Full screen, and back (V)', () => act('screen'))}
    ${layouts.row}${button('?', 'Keys (?)', () => act('help'))}
  </div>`;
  const panes = el('div', { class: 'rv-panes' });
  const flash = el('div', { class: 'rv-flash', 'aria-live': 'polite' });
  const asStored = 'Not as the image is stored; click, or F, shows it upright';
  const turned = button('', asStored, () => act('fit'), { class: 'rv-turned', hidden: true });
  const bar = decisionBar(keys, act);
  const line = el('div', { class: 'rv-timeline', hidden: true });
  const stage = dom`
    <div class="rv-view" tabindex="0" role="application" aria-label="Image: decision keys work here">
      ${panes}${turned}${flash}
    </div>`;
  stage.addEventListener('pointerdown', () => stage.focus({ preventScroll: true }));
  const element = el('section', { class: 'rv-stage', 'aria-label': 'Case' }, top, stage, line, bar.element);

  function sized() {
    const ratio = devicePixelRatio || 1;
    for (const { canvas } of review.panes) {
      const box = canvas.getBoundingClientRect();
      if (!box.width) return;
      const width = Math.round(box.width * ratio);
      const height = Math.round(box.height * ratio);
      if (canvas.width !== width) canvas.width = width;
      if (canvas.height !== height) canvas.height = height;
      review.view.setPane(box.width, box.height);
    }
    review.draw();
  }
  const observer = new ResizeObserver(sized);

  const inHand = () => [review.ruler, review.place].find((tool) => tool.active);

  /** @param {string} kind @returns {import('./review_view.js').Pane} */
  function pane(kind) {
    const canvas = el('canvas', { tabindex: -1 });
    const caption = el('span', { class: 'rv-caption' }, Reflect.get(CAPTIONS, kind) || '');
    const box = el('div', { class: 'rv-pane' }, canvas, caption);
    gestures(canvas, review.view, {
      tool: () => inHand() || (review.editor.tool ? review.editor : null),
      windowing: (dx, dy) => {
        const now = review.display.window();
        const gain = (review.picture?.top || 255) / 400;
        review.display.setWindow({ centre: now.centre + dy * gain, width: now.width + dx * gain });
      },
      hover: (p) => {
        review.editor.cursor = p;
        if (review.editor.tool) review.draw();
      },
    });
    observer.observe(box);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { willReadFrequently: true }));
    return { kind, canvas, context, box, caption };
  }

  function captions() {
    const titleOf = (/** @type {string | null | undefined} */ id) =>
      review.setup?.runs.find((r) => r.id === id)?.title || '';
    for (const { kind, caption } of review.panes) {
      if (kind === 'overlay') {
        const quiet = review.heat && review.show.contour && !review.outlines(review.heat);
        const title = review.panes.length > 1 ? titleOf(review.run) : '';
        const hint = quiet && `Not flagged: no outline (${label(keys.of('contour'))} shows it)`;
        caption.textContent = [title, hint].filter(Boolean).join(' · ');
      }
      if (kind === 'nearest')
        caption.textContent = review.nearest ? `Nearest normal: ${review.nearest.name}` : CAPTIONS.nearest;
      if (kind === 'second')
        caption.textContent = review.second ? titleOf(review.second.run) : review.heat ? NO_SECOND : '';
    }
  }

  let commented = 0; // the case of the comment in the box
  let flashing = 0;
  let rated = '';
  review.put({
    arrange: () => {
      layouts.set(review.show.layout);
      observer.disconnect();
      const kinds = [...LAYOUTS[review.show.layout], ...(review.show.nearest ? ['nearest'] : [])];
      review.put({ panes: kinds.map(pane) });
      panes.replaceChildren(...review.panes.map((p) => p.box));
      panes.dataset.count = String(review.panes.length);
      review.named();
      review.cursor();
      sized();
    },
    cursor: () => {
      press(ruler, review.ruler.active);
      for (const { canvas } of review.panes)
        canvas.style.cursor = review.editor.tool || inHand() ? 'crosshair' : 'grab';
    },
    painted: () => {
      const words = inWords(review.view.turn);
      turned.hidden = !words;
      if (turned.textContent !== words) turned.textContent = words;
      zoom.textContent = review.picture ? `${Math.round(100 * review.view.scale * (devicePixelRatio || 1))} %` : '';
    },
    comment: () => bar.comment.value.trim(),
    rating: () => bar.rating(),
    named: () => {
      const d = review.detail;
      const { text, last } = standing(d);
      const name = d ? nameOf(review, d) : review.coming ? 'Loading…' : 'No case';
      panes.classList.toggle('rv-bare', !review.picture);
      fill(title, d ? inMiddle(name, endOf(name)) : name);
      title.title = d ? `${name}: ${d.width} x ${d.height} pixels, ${d.bits} bits` : '';
      state.textContent = state.title = text;
      drafted.hidden = !d || !review.drafts.cases.has(d.id);
      if (d && d.id !== commented) bar.comment.value = last?.comment || '';
      commented = d?.id || 0;
      const stage = `${d?.id} ${d?.mine.length}`;
      bar.rate(Boolean(review.setup?.trial?.rated), stage !== rated);
      rated = stage;
      bar.mark(last?.decision);
      captions();
    },
    judges: () => {
      judge.hidden = !['adjudicator', 'administrator'].includes(review.setup?.rights.role || '');
    },
    relabel: () => bar.relabel(),
    flash: (text, kind, ms = 900) => {
      if (text) flash.textContent = text; // an empty note fades with its text
      flash.className = text ? `rv-flash on ${kind}` : 'rv-flash';
      clearTimeout(flashing);
      flashing = setTimeout(() => (flash.className = 'rv-flash'), ms);
    },
  });
  const screen = () => (document.fullscreenElement ? document.exitFullscreen() : element.requestFullscreen());
  return { element, stage, panes, screen, comment: bar.comment, line };
}
