// Lesion masks: the version on screen, its comparison, and the tools to draw a new one.

import { el, fill, options } from '../../../static/dom.js';
import { moment } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { compare, leave, makeReference, restore, use } from './drawing.js';
import { button, press, slider, toggle } from './parts.js';
import { masksShown, reveal, seenAnew } from './reference.js';
import { available } from './snap.js';

/** @type {[name: string, words: string, key: string, title?: string][]} */
const TOOLS = [
  ['box', 'Box', '/', 'Drag a box around a lesion to make a mask ( / ); Click (G) corrects it'],
  ['brush', 'Brush', 'B'],
  ['erase', 'Erase', 'E'],
  ['snap', 'Snap', ';', 'Turns the heat map’s region under the pointer into a mask ( ; ); Click (G) corrects it'],
  ['click', 'Click', 'G', 'Click a lesion to grow a region. Click again to add; with Alt or Shift, remove (G)'],
  ['polygon', 'Polygon', 'P'],
  ['take', 'Use region', '\\', 'Click a region of the heat map: its outline becomes the mask ( \\ )'],
];
const STAND = 3; // tools with separate buttons; the others are under More
const FROM = { import: 'imported', hand: 'by hand', run: 'from a run' };

/** @param {ReviewView} review */
export function maskPanel(review) {
  const pick = (/** @type {string} */ label, /** @type {(id: number | null) => unknown} */ change) => {
    const menu = el('select', { 'aria-label': label, title: label });
    menu.onchange = () => change(Number(menu.value) || null);
    return menu;
  };
  const which = pick('Version of the lesion mask', (id) => use(review, id));
  const other = pick('Compare with another version', (id) => compare(review, id));
  const style = toggle('Outline', 'M', () => review.act('mask'));
  const back = button('Restore', 'Make this the newest version', () => restore(review));
  const adopt = button('Use as reference', 'Use this mask for all figures', () => makeReference(review));
  const tools = TOOLS.map(([name, text, key, title]) => toggle(text, key, () => review.act(name), title));
  const tool = Object.fromEntries(TOOLS.map(([name], i) => [name, tools[i]]));
  const normal = 'Brush for places that look unusual but are normal; save with S (#)';
  const places = toggle('Normal here', '#', () => review.act('places'), normal);
  const all = 'All lesions of this case are marked: the rest counts as normal (=)';
  const finished = toggle('Fully annotated', '=', () => review.act('finished'), all);
  const lacks = el('p', { class: 'dim rv-lacks', hidden: true });
  const size = slider('Size', {
    min: 1,
    max: 200,
    value: 24,
    title: 'Brush size in image pixels',
    text: (v) => `${v} px`,
    input: (v) => (review.editor.size = v),
  });
  const save = button('Save version', 'Save as a new version (S)', () => review.act('save'), { class: 'main' });
  const label = el('select', { 'aria-label': 'Lesion type', title: 'Lesion type' });
  const editing = dom`<div class="rv-editing">
    ${size.row}
    <div class="rv-head">
      ${button('Fill holes', 'Fill the holes of the drawn mask', () => review.editor.fillHoles())}
      ${button('Smooth', 'Smooth the outline of the drawn mask', () => review.editor.smooth())}
      ${button('Clear', 'Clear the drawn mask', () => review.editor.clear())}
    </div>
    <div class="rv-head">
      ${label}${button('Discard', 'Discards the drawing and its draft', () => leave(review))}${save}
    </div>
  </div>`;
  const truth = () => {
    review.display.set({ truth: !review.show.truth });
    for (const id of review.list.rows.keys()) review.list.renew(id);
    seenAnew(review);
  };
  const early = 'Show imported masks, and names that reveal the label, before the first decision';
  const reference = toggle('Reference', '', truth, early);
  const waiting = dom`<div class="rv-head rv-waits">
    <span class="dim">Reference mask, if any: hidden until you decide</span>
    ${button('Show', 'Show it now (M)', () => reveal(review))}
  </div>`;
  const others = el('div', { class: 'rv-head rv-other' }, other);
  const shown = dom`<div class="rv-versions"><div class="rv-head">${which}${back}${adopt}</div>${others}</div>`;
  const element = dom`<section class="rv-maskpanel">
    <div class="rv-head"><h3>Lesion mask</h3>${reference}${style}</div>
    ${waiting}${shown}
    <div class="rv-head rv-tools">
      ${tools.slice(0, STAND)}${finished}
      <details><summary>More</summary><div class="rv-head rv-tools">${tools.slice(STAND)}${places}</div></details>
    </div>
    ${lacks}${editing}
  </section>`;

  /** @param {Answers.MaskVersion} m @returns {[id: number, words: string, title?: string]} */
  const version = (m) => {
    const when = m.source === 'import' ? '' : `, ${moment(m.created)}`;
    const words = `v${m.version} ${FROM[m.source]}${m.reader ? `, ${m.reader}` : ''}${when}`;
    return [m.id, words + (m.reference ? ' (reference)' : ''), m.note || ''];
  };
  function versions() {
    const masks = review.detail ? masksShown(review, review.detail) : [];
    fill(which, options([['', masks.length ? 'no mask' : 'no mask yet'], ...masks.map(version)]));
    fill(other, options([['', 'compare with …'], ...masks.map(version)]));
    which.value = String(review.maskId || '');
    other.value = String(review.otherId || '');
    which.disabled = !masks.length;
    others.hidden = masks.length < 2;
    const on = masks.find((m) => m.id === review.maskId);
    const judges = review.setup?.rights.adjudicate && !review.setup.blind;
    adopt.hidden = !judges || review.waits || !on || on.reference || on.source === 'run';
    back.hidden = masks.length < 2 || review.maskId === masks[0].id || !review.maskId;
  }
  function reflect() {
    const { editor, detail, setup, show } = review;
    style.textContent = { outline: 'Outline', fill: 'Filled', off: 'Hidden' }[show.mask];
    press(style, show.mask !== 'off');
    element.hidden = !detail || detail.blind || Boolean(setup?.trial);
    const drawing = Boolean(editor.mask);
    editing.hidden = !drawing;
    shown.hidden = drawing || (review.waits && !review.maskId);
    waiting.hidden = drawing || !review.waits;
    press(reference, show.truth);
    for (const name of Object.keys(tool)) press(tool[name], editor.tool === name);
    const normal = editor.origin?.source === 'normal';
    press(places, normal);
    press(finished, Boolean(detail?.marks?.finished));
    label.hidden = normal;
    save.textContent = normal ? 'Save as normal' : 'Save version';
    tool.take.disabled = !review.heat;
    available((missing) => {
      tool.snap.disabled = Boolean(missing) || !review.heat;
      tool.box.disabled = Boolean(missing);
      if (missing) tool.snap.title = tool.box.title = missing;
      lacks.hidden = !missing;
      lacks.textContent = missing || '';
    });
    save.disabled = !editor.dirty;
    size.set(editor.size);
    if (!label.options.length)
      fill(
        label,
        options([
          ['', 'lesion type …'],
          ...(setup?.labels || []).map(/** @returns {[string, string]} */ (l) => [l, l]),
        ]),
      );
    versions();
  }
  return { element, reflect, label: () => label.value, freshLabels: () => label.replaceChildren() };
}
