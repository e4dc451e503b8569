// Exports: decisions, masks, the whole study; and the switch for blind reading.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { el, fill } from '../../static/dom.js';

const WHOLE = 'Whole study';
/** The exports and their formats. @type {Record<string, Record<string, string>>} */
const KINDS = {
  Decisions: { csv: 'CSV', findings: 'findings and tags, CSV', scores: 'all scores, CSV' },
  Masks: { coco: 'COCO', png: 'PNG', cvat: 'CVAT', 'label-studio': 'Label Studio', yolo: 'YOLO' },
  'Images and masks': { anomalib: 'anomalib' },
  DICOM: {
    'dicom-seg': 'masks',
    'dicom-labelmap': 'masks as one label map',
    'dicom-map': 'heat maps',
    'dicom-sr': 'reports',
  },
  [WHOLE]: { bundle: 'bundle' },
};
const REMAPPED = 'Names and dates are remapped; burned-in text in images is not';
const KEPT = 'Names are kept: for moving a study between installations';

const ANSWERS = 'rs-answers';
let namedStudy = ''; // whose names stay: a redrawn page keeps the ticks

/** The target of the forms: the browser saves a file, and otherwise the frame shows the error. It is outside the
 * page's contents, which may be redrawn before the answer arrives. */
function listen() {
  if (document.querySelector(`iframe[name=${ANSWERS}]`)) return;
  const answers = /** @type {HTMLIFrameElement} */ (el('iframe', { name: ANSWERS, hidden: true }));
  answers.addEventListener('load', () => {
    const said = answers.contentDocument?.body?.textContent;
    if (!said) return;
    try {
      toast(JSON.parse(said).error, 'bad');
    } catch {
      toast('No file came back. Reload the page and try again.', 'bad');
    }
  });
  document.body.append(answers);
}

/** Queues masks, heat maps and reports for a DICOMweb server, chosen by its name on the machine.
 * @param {string} study @param {string | null} run @param {HTMLInputElement} named whether names stay @param
 * {string[]} servers */
function send(study, run, named, servers) {
  const options = servers.map((name) => el('option', {}, name));
  const which = /** @type {HTMLSelectElement} */ (el('select', { 'aria-label': 'DICOMweb server' }, options));
  const title = 'DICOM-SEG, heat maps and DICOM-SR, by STOW; names and UIDs as the box above says';
  const button = el('button', { title }, 'Send to');
  button.onclick = async () => {
    const body = { server: which.value, kinds: ['seg', 'map', 'sr'], names: named.checked, run: run || '' };
    if (await orToast(api(`/api/export/${encodeURIComponent(study)}/send`, body))) {
      toast(`Queued for ${which.value}; see its progress in Training.`, 'good');
    }
  };
  return [button, which];
}

/** @param {string} study @param {string | null} run whose scores accompany the decisions @param {{blind: boolean,
 * may: boolean}} how blind: the study is read blind first; may: administrators' exports are offered @param {(id:
 * number, name: string) => HTMLElement} link to a case @param {() => void} changed */
export function exports(study, run, { blind, may }, link, changed) {
  listen();
  const named = el('input', { type: 'checkbox', class: 'rs-named' });
  named.checked = namedStudy === study;
  named.onchange = () => {
    namedStudy = named.checked ? study : '';
  };
  const keep = el('label', { class: 'check', title: 'A bundle always keeps them' }, named, 'Keep names and dates');
  const which = /** @type {HTMLSelectElement} */ (
    el(
      'select',
      { 'aria-label': 'Masks to export' },
      el('option', { value: '' }, 'reference, else newest'),
      el('option', { value: 'reference' }, 'reference'),
      el('option', { value: 'readers' }, 'readers’ newest'),
    )
  );
  const sending = el('span', { class: 'rs-way', hidden: true });
  const kinds = Object.entries(KINDS).filter(([what]) => may || what !== WHOLE);
  const ways = kinds.map(([what, forms]) => {
    const links = Object.entries(forms).map(([kind, text]) => {
      const action = `./api/export/${encodeURIComponent(study)}/${kind}`;
      const title = kind === 'bundle' ? KEPT : `${REMAPPED}, unless they are to stay as they are`;
      const button = el('button', { title, 'aria-label': `${what}, ${text}` }, text);
      const form = el('form', { method: 'post', action, target: ANSWERS }, button);
      form.onsubmit = () => {
        const asked = { names: String(Number(named.checked)), run: run || '', masks: which.value };
        form.action = `${action}?${new URLSearchParams(asked)}`;
      };
      return form;
    });
    return el(
      'span',
      { class: 'rs-way' },
      el('span', { class: 'dim' }, what),
      links,
      what === 'Masks' && which,
      what === 'DICOM' && sending,
    );
  });
  const turn = async () => {
    await orToast(api('/api/review/settings', { study, blind: !blind }));
    changed();
  };
  const look = {
    'aria-pressed': String(blind),
    title: 'Readers decide before they see the score, heat map and mask',
    onclick: turn,
  };
  const button = el('button', look, `Blind-first reading: ${blind ? 'on' : 'off'}`);
  const careful = el('p', { class: 'warn rs-careful', hidden: true });
  api(`/api/export/${encodeURIComponent(study)}/warning`).then(
    ({ text, cases, servers }) => {
      sending.hidden = !may || !servers.length;
      fill(sending, send(study, run, named, servers));
      careful.hidden = !text;
      if (text) fill(careful, `${text}. `, cases.length ? link(cases[0], 'Show the first') : '');
    },
    () => {},
  );
  return el(
    'section',
    { class: 'panel rs-wide' },
    el('div', { class: 'rs-head' }, el('h2', {}, 'Export'), may && [keep, button]),
    el('div', { class: 'rs-head rs-ways' }, ways),
    careful,
  );
}
