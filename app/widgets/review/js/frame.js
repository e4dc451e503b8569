// The frame of Review: toolbar, panes, and the bar with the three decisions.
import { render } from 'preact';
import { el, finderOfAll } from '../../../static/dom.js';
import { label } from './keys.js';
import { LAYOUTS } from './paint.js';
import { choice, inMiddle, press } from './parts.js';
import { nameOf } from './reference.js';
import { gestures, inWords } from './view.js';

const NO_SECOND = 'No second detector has scored this case';

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
  const [panes, turned, stage, comment] = ['.rv-panes', '.rv-turned', '.rv-view', '.rv-comment'].map($);
  const [scale, rating, rated] = ['.rv-rating', '.rv-rating input', '.rv-rating output'].map($);
  const buttons = finderOfAll($('.rv-decide'))('[data-act]');
  const layouts = choice($('.rv-layouts'), (key) => review.display.setLayout(key));
  judge.onclick = () => {
    review.put({ adjudicating: !review.adjudicating });
    review.redraw();
  };
  rating.oninput = () => (rated.textContent = rating.value);
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
  new ResizeObserver(sized).observe(panes);

  /** @param {string} kind @returns {import('./review_view.js').Pane} */
  function pane(kind) {
    const canvas = el('canvas', { tabindex: -1 });
    const caption = el('span', { class: 'rv-caption' });
    gestures(canvas, review.view, {
      tool: () => review.dragged || (review.editor.tool ? review.editor : null),
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
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { willReadFrequently: true }));
    return { kind, canvas, context, caption };
  }

  const titleOf = (/** @type {string | null} */ id) => review.setup?.runs.find((r) => r.id === id)?.title || '';
  /** What stands on each kind of pane. @type {Record<string, () => string>} */
  const captions = {
    image: () => 'Image',
    mask: () => 'Lesion mask',
    nearest: () => (review.nearest ? `Nearest normal: ${review.nearest.name}` : 'Nearest normal training image'),
    second: () => (review.second ? titleOf(review.second.run) : review.heat ? NO_SECOND : ''),
    overlay: () => {
      const quiet = review.heat && review.show.contour && !review.outlines(review.heat);
      const title = review.panes.length > 1 ? titleOf(review.run) : '';
      const hint = quiet && `Not flagged: outline hidden (${label(keys.of('contour'))} shows it)`;
      return [title, hint].filter(Boolean).join(' · ');
    },
  };

  /** Arranges the panes anew. @param {string[]} kinds */
  function arrange(kinds) {
    review.put({ panes: kinds.map(pane) });
    panes.replaceChildren(...review.panes.map((p) => el('div', { class: 'rv-pane' }, p.canvas, p.caption)));
    sized();
  }

  let commented = 0; // the case of the comment in the box
  let answered = ''; // the case and the number of its decisions that the rating is for
  /** Shows the current decision, comment and rating, and the keys of the buttons.
   * @param {ReturnType<typeof standing>['last']} last */
  function decisionBar(last) {
    const { detail, setup } = review;
    if (detail && detail.id !== commented) comment.value = last?.comment || '';
    commented = detail?.id || 0;
    comment.title = `Comment (${label(keys.of('comment'))})`;
    scale.hidden = !setup?.trial?.rated;
    const now = `${detail?.id} ${detail?.mine.length}`;
    if (now !== answered) {
      rating.value = '50';
      rated.textContent = '–';
    }
    answered = now;
    for (const one of buttons) {
      const key = label(keys.of(one.dataset.act));
      one.title = `${one.lastChild.textContent} (${key})`;
      if (!one.dataset.say) continue;
      one.firstChild.textContent = key;
      press(one, one.dataset.say === last?.decision);
    }
  }

  review.shows(() => {
    const { detail, editor, grid, setup, show } = review;
    keys.own = setup?.keys || keys.own;
    review.root.classList.toggle('rv-gridded', grid.on);
    press($('.rv-grid-switch'), grid.on);
    layouts(show.layout);
    const kinds = [...LAYOUTS[show.layout], ...(show.nearest ? ['nearest'] : [])];
    if (String(kinds) !== String(review.panes.map(({ kind }) => kind))) arrange(kinds);
    for (const { kind, canvas, caption } of review.panes) {
      canvas.style.cursor = editor.tool || review.dragged ? 'crosshair' : 'grab';
      caption.textContent = captions[kind]();
    }
    press($('[data-act=ruler]'), review.ruler.active);
    judge.hidden = !['adjudicator', 'administrator'].includes(setup?.rights.role || '');
    press(judge, review.adjudicating);
    const { text, last } = standing(detail);
    const name = detail ? nameOf(review, detail) : review.coming ? 'Loading…' : 'No case';
    panes.classList.toggle('rv-bare', !review.picture);
    render(detail ? inMiddle(name) : name, title);
    title.title = detail ? `${name}: ${detail.width} x ${detail.height} pixels, ${detail.bits} bits` : '';
    state.textContent = state.title = text;
    drafted.hidden = !detail || !review.drafts.cases.has(detail.id);
    decisionBar(last);
  });
  const painted = () => {
    const words = inWords(review.view.turn);
    turned.hidden = !words;
    if (turned.textContent !== words) turned.textContent = words;
    const scale = Math.round(100 * review.view.scale * (devicePixelRatio || 1));
    $('.rv-zoom').textContent = review.picture ? `${scale} %` : '';
  };
  review.put({ painted });
}
