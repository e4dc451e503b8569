// The percentile on a line from 0 to 100, with the flagging threshold marked, and the run's certainty.
import { el } from '../../../static/dom.js';

export function percentileScale() {
  const dot = el('i', { class: 'rv-dot' });
  const number = el('b', { class: 'num' });
  const flag = el('span', { class: 'rv-flag' });
  const words = el('p', { class: 'rv-words' });
  const remarks = {
    members: el('p', { class: 'rv-sure', hidden: true }),
    steady: el('p', { class: 'rv-sure', hidden: true }),
  };
  const line = { class: 'rv-line', role: 'img', 'aria-label': 'Percentile of held-out normals' };
  const element = el(
    'div',
    { class: 'rv-scale' },
    el('div', { class: 'rv-scale-top' }, number, flag),
    el('div', line, el('i', { class: 'rv-cut' }), dot),
    words,
    remarks.members,
    remarks.steady,
  );
  /** @param {Answers.Reading | null | undefined} reading */
  const set = (reading) => {
    const percentile = reading?.percentile;
    const known = percentile != null;
    number.textContent = known ? `${percentile.toFixed(1)} %` : '–';
    flag.textContent = known ? (reading?.flagged ? 'flagged' : 'not flagged') : '';
    flag.className = `rv-flag ${known && reading?.flagged ? 'on' : ''}`;
    dot.hidden = !known;
    if (known) dot.style.left = `${percentile}%`;
    for (const name of /** @type {const} */ (['members', 'steady'])) {
      const remark = reading?.[name];
      const paragraph = remarks[name];
      paragraph.hidden = !remark;
      if (!remark) continue;
      paragraph.textContent = remark.words;
      paragraph.title = remark.more;
      paragraph.classList.toggle('not', !remark.ok);
    }
    words.textContent = reading ? reading.words : 'This run has not scored the case yet.';
  };
  return { element, set };
}
