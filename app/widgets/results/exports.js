// Exports: decisions, masks, the whole study; and the switch for blind reading.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { check, el, fill, options } from '../../static/dom.js';
import { dom } from '../../static/view.js';

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
/** @type {[string, string][]} */
const MASKS = [
  ['', 'reference, else newest'],
  ['reference', 'reference'],
  ['readers', 'readers’ newest'],
];
const REMAPPED = 'Names and dates are remapped; burned-in text in images is not';
const KEPT = 'Names are kept, to move a study between installations';

const ANSWERS = 'rs-answers';
let namedStudy = ''; // whose names stay: a redrawn page keeps the ticks

/** The target of the forms: the browser saves a file, and otherwise the frame shows the error. It is outside the
 * page's contents, which may be redrawn before the answer arrives. */
function listen() {
  if (document.querySelector(`iframe[name=${ANSWERS}]`)) return;
  const answers = el('iframe', { name: ANSWERS, hidden: true });
  answers.addEventListener('load', () => {
    const said = answers.contentDocument?.body?.textContent;
    if (!said) return;
    try {
      toast(JSON.parse(said).error, 'bad');
    } catch {
      toast('The studio returned no file. Reload the page and try again.', 'bad');
    }
  });
  document.body.append(answers);
}

/** Queues masks, heat maps and reports for a DICOMweb server, chosen by its name on the machine.
 * @param {string} study @param {string | null} run @param {HTMLInputElement} named whether names stay @param
 * {string[]} servers */
function send(study, run, named, servers) {
  const which = el('select', { 'aria-label': 'DICOMweb server' }, options(servers.map((name) => [name, name])));
  const title = 'Sends DICOM-SEG, heat maps and DICOM-SR by STOW; “Keep names and dates” applies';
  const onclick = async () => {
    const body = { server: which.value, kinds: ['seg', 'map', 'sr'], names: named.checked, run: run || '' };
    if (await orToast(api(`/api/export/${encodeURIComponent(study)}/send`, body))) {
      toast(`Queued for ${which.value}; see its progress in Training.`, 'good');
    }
  };
  return [el('button', { title, onclick }, 'Send to'), which];
}

/** @param {string} study @param {string | null} run whose scores accompany the decisions @param {{blind: boolean,
 * may: boolean}} how blind: the study is read blind first; may: administrators' exports are offered @param {(id:
 * number, name: string) => HTMLElement} link to a case @param {() => void} changed */
export function exports(study, run, { blind, may }, link, changed) {
  listen();
  const { box: named, label: keep } = check('Keep names and dates', {
    class: 'rs-named',
    checked: namedStudy === study,
    onchange: () => (namedStudy = named.checked ? study : ''),
  });
  keep.title = 'A bundle always keeps them';
  const which = el('select', { 'aria-label': 'Masks to export' }, options(MASKS));
  const sending = el('span', { class: 'rs-way', hidden: true });
  const form = (/** @type {string} */ what, /** @type {string} */ kind, /** @type {string} */ text) => {
    const action = `./api/export/${encodeURIComponent(study)}/${kind}`;
    const title = kind === 'bundle' ? KEPT : `${REMAPPED}; “Keep names and dates” turns this off`;
    const made = dom`<form method="post" action=${action} target=${ANSWERS}>
      <button title=${title} aria-label="${what}, ${text}">${text}</button>
    </form>`;
    made.onsubmit = () => {
      const asked = { names: String(Number(named.checked)), run: run || '', masks: which.value };
      made.action = `${action}?${new URLSearchParams(asked)}`;
    };
    return made;
  };
  const way = (/** @type {[string, Record<string, string>]} */ [what, forms]) => dom`<span class="rs-way">
    <span class="dim">${what}</span>${Object.entries(forms).map(([kind, text]) => form(what, kind, text))}
    ${what === 'Masks' && which}${what === 'DICOM' && sending}
  </span>`;
  const turn = async () => {
    await orToast(api('/api/review/settings', { study, blind: !blind }));
    changed();
  };
  const title = 'Readers decide before they see the score, heat map and mask';
  const button = dom`<button aria-pressed=${String(blind)} title=${title} onclick=${turn}>
    Blind-first reading: ${blind ? 'on' : 'off'}
  </button>`;
  const careful = el('p', { class: 'warn rs-careful', hidden: true });
  api(`/api/export/${encodeURIComponent(study)}/warning`).then(
    ({ text, cases, servers }) => {
      sending.hidden = !may || !servers.length;
      fill(sending, send(study, run, named, servers));
      careful.hidden = !text;
      if (text) fill(careful, `${text}. `, cases.length ? link(cases[0], 'Show first case') : '');
    },
    () => {},
  );
  const kinds = Object.entries(KINDS).filter(([what]) => may || what !== WHOLE);
  return dom`<section class="panel rs-wide">
    <div class="rs-head"><h2>Export</h2>${may && [keep, button]}</div>
    <div class="rs-head rs-ways">${kinds.map(way)}</div>
    ${careful}
  </section>`;
}
