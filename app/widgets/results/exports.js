// What leaves the studio: decisions, masks, the whole study; and the switch for blind-first reading.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { el, fill } from '../../static/dom.js';

const KINDS = {
  csv: 'Decisions, CSV',
  coco: 'Masks, COCO',
  png: 'Masks, PNG',
  'dicom-seg': 'DICOM-SEG',
  bundle: 'Whole study, bundle',
};
const REMAPPED = 'Names and dates are remapped; burned-in text in images is not';
const KEPT = 'Names are kept: for moving a study between installations';

/**
 * @param {string} study
 * @param {boolean} blind whether the study is read blind first
 * @param {(id: number, name: string) => HTMLElement} link to a case
 * @param {() => void} changed
 */
export function exports(study, blind, link, changed) {
  const links = Object.entries(KINDS).map(([kind, text]) => {
    const href = `/api/export/${encodeURIComponent(study)}/${kind}`;
    return el('a', { href, download: '', title: kind === 'bundle' ? KEPT : REMAPPED }, text);
  });
  const turn = async () => {
    await orToast(api('/api/review/settings', { study, blind: !blind }));
    changed();
  };
  const look = {
    'aria-pressed': String(blind),
    title: 'Readers decide before they see score, heat map and mask',
    onclick: turn,
  };
  const button = el('button', look, `Blind-first reading: ${blind ? 'on' : 'off'}`);
  const careful = el('p', { class: 'warn rs-careful', hidden: true });
  api(`/api/export/${encodeURIComponent(study)}/warning`).then(
    ({ text, cases }) => {
      careful.hidden = !text;
      if (text) fill(careful, `${text}. `, cases.length ? link(cases[0], 'Look at the first') : '');
    },
    () => {},
  );
  return el(
    'section',
    { class: 'panel rs-wide' },
    el('div', { class: 'rs-head' }, el('h2', {}, 'Take it with you'), links, button),
    careful,
  );
}
