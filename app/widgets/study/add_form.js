// Adding cases to a study that is there: one file, or all below a folder.
import { el } from '../../static/dom.js';
import { check, form, path } from './manage_parts.js';

const ABOUT =
  'They come in as test cases without a label, scored by the run that Review opens with. A recording becomes a series ' +
  'of frames with a timeline in Review.';

/** @param {(values: {path: string, keep: boolean, per_second: number}) => void} add */
export function addForm(add) {
  const where = path('File or folder on this machine');
  const keep = check('Copy into the studio');
  const rate = el('input', {
    type: 'number',
    class: 'per-second',
    min: 0.01,
    max: 1000,
    step: 'any',
    value: 1,
    'aria-label': 'Frames a second',
  });
  return [
    form(
      () => add({ path: where.box.value, keep: keep.box.checked, per_second: Number(rate.value) || 1 }),
      where.label,
      el('label', {}, 'Recordings, frames a second ', rate),
      keep.label,
      el('button', {}, 'Add'),
    ),
    el('p', { class: 'dim' }, ABOUT),
  ];
}
