// Adding cases to an existing study: one file, or all below a folder.
import { action, check, dropZone, el, options } from '../../static/dom.js';
import { dom } from '../../static/view.js';
import { chosenFiles, droppedFiles } from './files.js';
import { form, path } from './manage_parts.js';

const ABOUT =
  'Added as test cases without a label, and scored by the run that Review opens with. A recording becomes a series ' +
  'of frames with a timeline in Review.';

const TOOLS = { coco: 'COCO', cvat: 'CVAT', 'label-studio': 'Label Studio', yolo: 'YOLO, zip', png: 'PNG masks, zip' };

/** Lesions drawn in another tool, matched by file name. @param {(tool: string, file: File) => unknown} annotate */
function annotations(annotate) {
  const tool = el('select', { 'aria-label': 'Tool' }, options(Object.entries(TOOLS)));
  const input = el('input', { type: 'file', class: 'annotations', accept: '.json,.xml,.zip', hidden: true });
  input.onchange = async () => {
    const [file] = input.files || [];
    if (file) await annotate(tool.value, file);
    input.value = '';
  };
  const pick = action('Choose a file', () => input.click(), { class: 'pick-annotations' });
  const found = el('span', { class: 'dim' }, ' Images are found by the names of their files.');
  return el('p', {}, 'Annotations from another tool ', tool, ' ', pick, input, found);
}

/** @param {(values: {path: string, keep: boolean, per_second: number}) => void} add @param {(files:
 * import('./files.js').Upload[]) => unknown} join adds dropped or chosen files @param {(tool: string, file:
 * File) => unknown} annotate imports lesions drawn elsewhere */
export function addForm(add, join, annotate) {
  const where = path('File or folder on this machine');
  const keep = check('Copy into the studio');
  const rate = el('input', { type: 'number', class: 'per-second', min: 0.01, max: 1000, step: 'any', value: 1 });
  rate.ariaLabel = 'Frames a second';
  const input = el('input', { type: 'file', multiple: true, hidden: true, onchange: () => taken(chosenFiles(input)) });
  const taken = (/** @type {import('./files.js').Upload[]} */ files) => files.length && join(files);
  const zone = dom`<div class="drop">
    <b>Drop images, a folder or a zip here</b>
    <span class="dim">or <button type="button" class="link" onclick=${() => input.click()}>choose files</button></span>
    ${input}
  </div>`;
  dropZone(zone, async (event) => taken(await droppedFiles(event)));
  const send = () => add({ path: where.box.value, keep: keep.box.checked, per_second: Number(rate.value) || 1 });
  const rated = el('label', {}, 'Recordings, frames a second ', rate);
  const fields = [where.label, rated, keep.label, el('button', {}, 'Add')];
  return [zone, form(send, fields), el('p', { class: 'dim' }, ABOUT), annotations(annotate)];
}
