// Lesion masks: the version on screen, its comparison, and the tools to draw a new one.

import { action, el, fill } from '../../../static/dom.js';
import { moment } from '../../../static/format.js';
import { compare, leave, makeReference, restore, use } from './drawing.js';
import { slider, toggle } from './parts.js';
import { masksShown, reveal, seenAnew } from './reference.js';
import { available } from './snap.js';

/** @type {[name: string, title: string, key: string][]} */
const TOOLS = [
  ['box', 'Box', '/'],
  ['brush', 'Brush', 'B'],
  ['erase', 'Erase', 'E'],
  ['snap', 'Snap', ';'],
  ['click', 'Click', 'G'],
  ['polygon', 'Polygon', 'P'],
  ['take', 'Use region', '\\'],
];
const STAND = 3; // tools with separate buttons; the others are under More
const FROM = { import: 'imported', hand: 'by hand', run: 'from a run' };

/** @param {ReviewView} review */
export function maskPanel(review) {
  const pick = (/** @type {string} */ label, /** @type {() => void} */ change) =>
    el('select', { 'aria-label': label, title: label, onchange: change });
  const which = pick('Version of the lesion mask', () => use(review, Number(which.value) || null));
  const other = pick('Compare with another version', () => compare(review, Number(other.value) || null));
  const style = toggle('Outline', 'M', () => review.act('mask'));
  const back = action('Restore', () => restore(review), { title: 'Make this the newest version' });
  const adopt = action('Use as reference', () => makeReference(review), {
    title: 'Use this mask for all figures',
  });
  const tools = TOOLS.map(([name, text, key]) => ({ name, button: toggle(text, key, () => review.act(name)) }));
  const [snap, box, click, take] = ['snap', 'box', 'click', 'take'].map(
    (name) => tools.filter((t) => t.name === name)[0].button,
  );
  snap.title = 'Turns the heat map’s region under the pointer into a mask ( ; ); Click (G) corrects it';
  box.title = 'Drag a box around a lesion to make a mask ( / ); Click (G) corrects it';
  click.title = 'Click a lesion to grow a region. Click again to add; with Alt or Shift, remove (G)';
  take.title = 'Click a region of the heat map: its outline becomes the mask ( \\ )';
  const places = toggle('Normal here', '#', () => review.act('places'));
  places.title = 'Brush for places that look unusual but are normal; save with S (#)';
  const finished = toggle('Fully annotated', '=', () => review.act('finished'));
  finished.title = 'All lesions of this case are marked: the rest counts as normal (=)';
  const rest = el(
    'div',
    { class: 'rv-head rv-tools' },
    tools.slice(STAND).map((t) => t.button),
    places,
  );
  const more = el('details', {}, el('summary', {}, 'More'), rest);
  const lacks = el('p', { class: 'dim rv-lacks', hidden: true });
  const size = slider('Size', {
    min: 1,
    max: 200,
    value: 24,
    title: 'Brush size in image pixels',
    text: (v) => `${v} px`,
    input: (v) => {
      review.editor.size = v;
    },
  });
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ click) =>
    action(text, click, { title });
  const holes = button('Fill holes', 'Fill the holes of the drawn mask', () => review.editor.fillHoles());
  const soft = button('Smooth', 'Smooth the outline of the drawn mask', () => review.editor.smooth());
  const clear = button('Clear', 'Clear the drawn mask', () => review.editor.clear());
  const discard = button('Discard', 'Discards the drawing and its draft', () => leave(review));
  const save = action('Save version', () => review.act('save'), { class: 'main', title: 'Save as a new version (S)' });
  const label = el('select', { 'aria-label': 'Lesion type', title: 'Lesion type' });
  const editing = el(
    'div',
    { class: 'rv-editing' },
    size.row,
    el('div', { class: 'rv-head' }, holes, soft, clear),
    el('div', { class: 'rv-head' }, label, discard, save),
  );
  const reference = action(
    'Reference',
    () => {
      review.display.set({ truth: !review.show.truth });
      for (const id of review.list.rows.keys()) review.list.renew(id);
      seenAnew(review);
    },
    { class: 'rv-toggle', title: 'Show imported masks, and names that reveal the label, before the first decision' },
  );
  const waiting = el(
    'div',
    { class: 'rv-head rv-waits' },
    el('span', { class: 'dim' }, 'Reference mask, if any: hidden until you decide'),
    action('Show', () => reveal(review), { title: 'Show it now (M)' }),
  );
  const others = el('div', { class: 'rv-head rv-other' }, other);
  const shown = el('div', { class: 'rv-versions' }, el('div', { class: 'rv-head' }, which, back, adopt), others);
  const element = el(
    'section',
    { class: 'rv-maskpanel' },
    el('div', { class: 'rv-head' }, el('h3', {}, 'Lesion mask'), reference, style),
    waiting,
    shown,
    el(
      'div',
      { class: 'rv-head rv-tools' },
      tools.slice(0, STAND).map((t) => t.button),
      finished,
      more,
    ),
    lacks,
    editing,
  );

  const text = (/** @type {Answers.MaskVersion} */ m) =>
    `v${m.version} ${FROM[m.source]}${m.reader ? `, ${m.reader}` : ''}${m.source === 'import' ? '' : `, ${moment(m.created)}`}${m.reference ? ' (reference)' : ''}`;
  function versions() {
    const masks = review.detail ? masksShown(review, review.detail) : [];
    const options = (/** @type {string} */ first) => [
      el('option', { value: '' }, first),
      ...masks.map((m) => el('option', { value: m.id, title: m.note }, text(m))),
    ];
    fill(which, options(masks.length ? 'no mask' : 'no mask yet'));
    fill(other, options('compare with …'));
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
    style.textContent = { outline: 'Outline', fill: 'Filled', off: 'Hidden' }[review.show.mask];
    style.setAttribute('aria-pressed', String(review.show.mask !== 'off'));
    element.hidden = !review.detail || review.detail.blind || Boolean(review.setup?.trial);
    const drawing = Boolean(review.editor.mask);
    editing.hidden = !drawing;
    shown.hidden = drawing || (review.waits && !review.maskId);
    waiting.hidden = drawing || !review.waits;
    reference.setAttribute('aria-pressed', String(review.show.truth));
    for (const { name, button } of tools) button.setAttribute('aria-pressed', String(review.editor.tool === name));
    const normal = review.editor.origin?.source === 'normal';
    places.setAttribute('aria-pressed', String(normal));
    finished.setAttribute('aria-pressed', String(Boolean(review.detail?.marks?.finished)));
    label.hidden = normal;
    save.textContent = normal ? 'Save as normal' : 'Save version';
    take.disabled = !review.heat;
    available((missing) => {
      snap.disabled = Boolean(missing) || !review.heat;
      box.disabled = Boolean(missing);
      if (missing) snap.title = box.title = missing;
      lacks.hidden = !missing;
      lacks.textContent = missing || '';
    });
    save.disabled = !review.editor.dirty;
    size.set(review.editor.size);
    if (!label.options.length)
      fill(
        label,
        el('option', { value: '' }, 'lesion type …'),
        (review.setup?.labels || []).map((l) => el('option', { value: l }, l)),
      );
    versions();
  }
  return { element, reflect, label: () => label.value, freshLabels: () => label.replaceChildren() };
}
