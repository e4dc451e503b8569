// The frame of Review: toolbar, panes, and the bar with the three decisions.
import { el, fill } from '../../../static/dom.js';
import { decisionBar } from './decision_bar.js';
import { label } from './keys.js';
import { inWords } from './orientation.js';
import { LAYOUTS } from './paint.js';
import { choice, endOf, inMiddle, press } from './parts.js';
import { nameOf } from './reference.js';
import { gestures } from './view.js';

const NO_SECOND = 'No second detector has scored this case';
const CAPTIONS = { image: 'Image', mask: 'Lesion mask', nearest: 'Nearest normal training image' };

/** Describes this reader's state of a case. @param {Answers.CaseDetail | null} detail */
function standing(detail) {
  if (!detail) return { text: '', last: undefined };
  const mine = detail.mine.filter((r) => r.active);
  const last = mine[mine.length - 1];
  const first = mine.find((r) => r.stage === 'first');
  const once = `your decision: ${last?.decision}`;
  const own = last?.stage === 'second' ? `first ${first?.decision}, then ${last.decision}` : once;
  const others = (detail.others || []).map((o) => `${o.reader}: ${o.decision}`).join(', ');
  return { text: [last ? own : 'unread', others].filter(Boolean).join(' · '), last };
}

/** @param {ReviewView} review @param {import('./keys.js').Keys} keys */
export function frame(review, keys) {
  const { $ } = review;
  const [title, state, drafted, judge] = ['.rv-title', '.rv-state', '.rv-drafted', '.rv-judge'].map($);
  const [panes, flash, turned, stage] = ['.rv-panes', '.rv-flash', '.rv-turned', '.rv-view'].map($);
  const layouts = choice($('.rv-layouts'), (key) => review.display.setLayout(key));
  judge.onclick = () => {
    review.put({ adjudicating: !review.adjudicating });
    press(judge, review.adjudicating);
  };
  const bar = decisionBar(review, keys);
  stage.onpointerdown = () => stage.focus({ preventScroll: true });

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
        const hint = quiet && `Not flagged: outline hidden (${label(keys.of('contour'))} shows it)`;
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
      layouts(review.show.layout);
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
      press($('[data-act=ruler]'), review.ruler.active);
      for (const { canvas } of review.panes)
        canvas.style.cursor = review.editor.tool || inHand() ? 'crosshair' : 'grab';
    },
    painted: () => {
      const words = inWords(review.view.turn);
      turned.hidden = !words;
      if (turned.textContent !== words) turned.textContent = words;
      $('.rv-zoom').textContent = review.picture
        ? `${Math.round(100 * review.view.scale * (devicePixelRatio || 1))} %`
        : '';
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
  const screen = () => (document.fullscreenElement ? document.exitFullscreen() : $('.rv-stage').requestFullscreen());
  return { stage, screen, comment: bar.comment };
}
