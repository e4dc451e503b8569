// One tile of the grid: a small picture with its heat map, and the case's data from the list.
import { el, fill } from '../../../static/dom.js';
import { fixed } from '../../../static/format.js';
import { MARK } from './decision_bar.js';
import { rowName } from './reference.js';
import { chips, tagsOf } from './tag_chips.js';

const SIDES = [192, 320, 512]; // sizes in which pictures are requested: few, so that the browser's cache is used

/** A tile picture's address. @param {ReviewView} review @param {Answers.WorklistRow} row @param {number} side in CSS pixels */
export function address({ run, show }, row, side) {
  const wanted = side * Math.min(devicePixelRatio || 1, 2);
  const size = SIDES.find((s) => s >= wanted) || SIDES[SIDES.length - 1];
  const heat = show.heat && run && row.map ? `&run=${encodeURIComponent(run)}&m=${encodeURIComponent(row.map)}` : '';
  return `./api/case/${row.id}/tile.webp?size=${size}&v=${row.v}${heat}`;
}

/** @param {ReviewView} review @param {Answers.WorklistRow | undefined} row undefined while its page is loading @param {{at: number,
 * total: number, side: number, selected: boolean, now: boolean}} where */
export function tile(review, row, { at, total, side, selected, now }) {
  const element = el('div', {
    id: `rv-tile-${at}`,
    class: `rv-tile${row?.flagged ? ' flagged' : ''}${row ? '' : ' waits'}`,
    role: 'option',
    'aria-selected': String(selected),
    'aria-posinset': at + 1,
    'aria-setsize': total,
    'data-at': at,
    'data-id': row?.id,
  });
  if (now) element.setAttribute('data-now', '');
  if (!row) return fill(element, el('span', { class: 'rv-picture' }));
  const what = row.decision || 'unread';
  const name = rowName(review, row);
  const said = [name, what, row.percentile != null && `${fixed(row.percentile, 1)} %`, row.flagged && 'flagged'];
  element.setAttribute('aria-label', said.filter(Boolean).join(', '));
  element.title = name;
  return fill(
    element,
    el(
      'span',
      { class: 'rv-picture' },
      el('img', { 'data-src': address(review, row, side), alt: '', decoding: 'async', draggable: 'false' }),
      el('span', { class: 'rv-pick', 'data-pick': true, title: 'Select (Shift+Space)' }),
      el('span', { class: `rv-mark ${what}`, title: what }, row.decision && MARK[row.decision]),
      review.drafts.cases.has(row.id) && el('span', { class: 'rv-draft', title: 'Unsaved drawing' }, '✎'),
      (row.disagreement || 0) > 0 && el('span', { class: 'rv-differ', title: 'Readers differ' }, '≠'),
      chips(tagsOf(review, row, Boolean(row.decision)), 2),
    ),
    el(
      'span',
      { class: 'rv-caption-line' },
      el('span', { class: 'rv-front' }, name.replace(/\.[a-z]{2,5}$/i, '')),
      el('span', { class: 'rv-pct num', title: row.flagged ? 'Flagged' : '' }, fixed(row.percentile, 1)),
    ),
  );
}
