// The labels of findings that Review offers.
import { el } from '../../static/dom.js';
import { form } from './manage_parts.js';

const ABOUT = 'One on each line; offered in Review when a mask is saved. Findings that use an older label keep it.';

/** @param {string[]} labels @param {(labels: string[]) => void} keep */
export function labelsForm(labels, keep) {
  const rows = Math.min(Math.max(labels.length + 1, 3), 8);
  const box = el('textarea', { rows, 'aria-label': 'Labels, one on each line' });
  box.value = labels.join('\n');
  return [form(() => keep(box.value.split('\n')), box, el('button', {}, 'Keep')), el('p', { class: 'dim' }, ABOUT)];
}
