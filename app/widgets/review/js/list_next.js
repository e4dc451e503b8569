// Which row Space goes to from the case on screen.

/** @typedef {{row: {id: number, decision?: string | null}, element: HTMLElement}} Held */

/**
 * The next unread row, else the first one of all; null where there is none among the rows that have been fetched.
 * @template {Pick<Held, 'row'>} H
 * @param {Iterable<H>} rows in the list's order
 * @param {number | undefined} id of the case on screen
 * @param {boolean} whole whether every row of the list has been fetched
 * @returns {H | null}
 */
export function nextUnread(rows, id, whole) {
  const all = [...rows];
  const at = all.findIndex(({ row }) => row.id === id);
  const unread = (/** @type {H} */ { row }) => !row.decision && row.id !== id;
  return all.slice(at + 1).find(unread) || (whole && all.slice(0, Math.max(at, 0)).find(unread)) || null;
}

/** @param {HTMLElement} box of the rows @param {Iterable<Held>} rows @param {number | undefined} id @param {boolean} whole */
export function markNext(box, rows, id, whole) {
  box.querySelector('.rv-next')?.classList.remove('rv-next');
  const mark = nextUnread(rows, id, whole)?.element.querySelector('.rv-mark');
  mark?.classList.add('rv-next');
  mark?.setAttribute('title', 'unread, the next one (Space)');
}
