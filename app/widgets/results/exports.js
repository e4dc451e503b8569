// Exports: decisions, masks, the whole study; and the switch for blind reading.
import { useRef, useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { el } from '../../static/dom.js';
import { button, choices, given, html } from '../../static/view.js';

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
const MASKS = Object.entries({ '': 'reference, else newest', reference: 'reference', readers: 'readers’ newest' });
const REMAPPED = 'Names and dates are remapped; burned-in text in images is not';
const SENT = 'Sends DICOM-SEG, heat maps and DICOM-SR by STOW; “Keep names and dates” applies';
const BLIND = 'Readers decide before they see the score, heat map and mask';
const KEPT = 'Names are kept, to move a study between installations';

const ANSWERS = 'rs-answers';

/** Adds the target of the forms: the browser saves a file, and otherwise the frame shows the error. It is outside the
 * tab's contents, which may change before the answer arrives. */
export function listen() {
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

/** @param {{study: string, run: string | null, blind: boolean, may: boolean, warning: Answers.ExportWarning | null,
 * link: (id: number, name: string) => any, changed: () => void}} props run: whose scores accompany the decisions; blind: the study is
 * read blind first; may: administrators' exports are offered; link: to a case */
export function Exports({ study, run, blind, may, warning, link, changed }) {
  const [named, setNamed] = useState(false);
  const [masks, setMasks] = useState('');
  const server = useRef(/** @type {HTMLSelectElement | null} */ (null));
  const at = encodeURIComponent(study);
  const form = (/** @type {string} */ what, /** @type {string} */ kind, /** @type {string} */ text) => {
    const asked = new URLSearchParams({ names: String(Number(named)), run: run || '', masks });
    const title = kind === 'bundle' ? KEPT : `${REMAPPED}; “Keep names and dates” turns this off`;
    return html`<form method="post" action="./api/export/${at}/${kind}?${asked}" target=${ANSWERS}>
      <button title=${title} aria-label="${what}, ${text}">${text}</button>
    </form>`;
  };
  // Queues masks, heat maps and reports for a DICOMweb server, chosen by its name on the machine.
  const send = async () => {
    const body = { server: server.current?.value, kinds: ['seg', 'map', 'sr'], names: named, run: run || '' };
    if (await orToast(api(`/api/export/${at}/send`, body)))
      toast(`Queued for ${body.server}; see its progress in Training.`, 'good');
  };
  const which = html`<select aria-label="Masks to export" onChange=${given(setMasks)}>${choices(MASKS)}</select>`;
  const { text = '', cases = [], servers = [] } = warning || {};
  const sending =
    may &&
    servers.length > 0 &&
    html`<span class="rs-way">
      ${button('Send to', send, { title: SENT })}
      <select ref=${server} aria-label="DICOMweb server">${choices(servers.map((name) => [name, name]))}</select>
    </span>`;
  const way = (/** @type {[string, Record<string, string>]} */ [what, forms]) => html`<span class="rs-way">
    <span class="dim">${what}</span>${Object.entries(forms).map(([kind, words]) => form(what, kind, words))}
    ${what === 'Masks' && which}${what === 'DICOM' && sending}
  </span>`;
  const turn = async () => {
    await orToast(api('/api/review/settings', { study, blind: !blind }));
    changed();
  };
  const kinds = Object.entries(KINDS).filter(([what]) => may || what !== WHOLE);
  return html`<section class="panel rs-wide">
    <div class="rs-head">
      <h2>Export</h2>
      ${
        may &&
        html`<label class="check" title="A bundle always keeps them">
            <input type="checkbox" class="rs-named" checked=${named} onChange=${() => setNamed(!named)} />
            Keep names and dates
          </label>
          ${button(`Blind-first reading: ${blind ? 'on' : 'off'}`, turn, { 'aria-pressed': blind, title: BLIND })}`
      }
    </div>
    <div class="rs-head rs-ways">${kinds.map(way)}</div>
    ${text && html`<p class="warn rs-careful">${text}. ${cases.length > 0 && link(cases[0], 'Show first case')}</p>`}
  </section>`;
}
