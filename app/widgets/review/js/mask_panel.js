// Lesion masks: the version on screen, its comparison, and the tools to draw a new one.

import { fill, offer, options } from '../../../static/dom.js';
import { moment } from '../../../static/format.js';
import { askLacking, compare, lacking, leave, makeReference, restore, use } from './drawing.js';
import { press, slider } from './parts.js';
import { masksShown, reveal, seenAnew } from './reference.js';
import { fillHoles, smooth } from './shapes.js';

const TOOLS = ['box', 'brush', 'erase', 'snap', 'click', 'polygon', 'take'];
const FROM = { import: 'imported', hand: 'by hand', run: 'from a run' };

/** @param {ReviewView} review */
export function maskPanel(review) {
  const { $, editor } = review;
  const [which, other, label] = ['.rv-which', '.rv-other select', '.rv-lesion'].map($);
  which.onchange = () => use(review, Number(which.value) || null);
  other.onchange = () => compare(review, Number(other.value) || null);
  const size = slider($('.rv-brush'), { text: (v) => `${v} px`, input: (v) => (editor.size = v) });
  /** @type {Record<string, () => unknown>} */
  const acts = {
    restore: () => restore(review),
    adopt: () => makeReference(review),
    reveal: () => reveal(review),
    holes: () => editor.step(fillHoles),
    smooth: () => editor.step((mask, w, h) => smooth(mask, w, h)),
    clear: () => editor.step((mask) => mask.fill(0)),
    discard: () => leave(review),
    truth() {
      review.display.set({ truth: !review.show.truth });
      for (const id of review.list.rows.keys()) review.list.renew(id);
      seenAnew(review);
    },
  };
  for (const [name, act] of Object.entries(acts)) $(`.rv-${name}`).onclick = act;
  const button = (/** @type {string} */ act) => $(`.rv-maskpanel [data-act=${act}]`);

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
    $('.rv-other').hidden = masks.length < 2;
    const on = masks.find((m) => m.id === review.maskId);
    const judges = review.setup?.rights.adjudicate && !review.setup.blind;
    $('.rv-adopt').hidden = !judges || review.waits || !on || on.reference || on.source === 'run';
    $('.rv-restore').hidden = masks.length < 2 || review.maskId === masks[0].id || !review.maskId;
  }
  askLacking();
  review.shows(() => {
    const { detail, setup, show } = review;
    button('mask').textContent = { outline: 'Outline', fill: 'Filled', off: 'Hidden' }[show.mask];
    press(button('mask'), show.mask !== 'off');
    $('.rv-maskpanel').hidden = !detail || detail.blind || Boolean(setup?.trial);
    const drawing = Boolean(editor.mask);
    $('.rv-editing').hidden = !drawing;
    $('.rv-versions').hidden = drawing || (review.waits && !review.maskId);
    $('.rv-waits').hidden = drawing || !review.waits;
    press($('.rv-truth'), show.truth);
    for (const name of TOOLS) press(button(name), editor.tool === name);
    const normal = editor.origin?.source === 'normal';
    press(button('places'), normal);
    press(button('finished'), Boolean(detail?.marks?.finished));
    label.hidden = normal;
    button('save').textContent = normal ? 'Save as normal' : 'Save version';
    button('take').disabled = !review.heat;
    button('snap').disabled = Boolean(lacking.value) || !review.heat;
    button('box').disabled = Boolean(lacking.value);
    if (lacking.value) button('snap').title = button('box').title = lacking.value;
    $('.rv-lacks').hidden = !lacking.value;
    $('.rv-lacks').textContent = lacking.value;
    button('save').disabled = !editor.dirty;
    size.set(editor.size);
    const labels = (setup?.labels || []).map(/** @returns {[string, string]} */ (l) => [l, l]);
    offer(label, options([['', 'lesion type …'], ...labels]));
    versions();
  });
}
