// An import's questions before it stores anything: the meaning of the groups of images, whether the interpretation is
// right, and whether to import erased images again.
import { asked } from '../../static/dialogs.js';
import { check, el } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { dom } from '../../static/view.js';

const ANSWERS = { normal: 'Normal', abnormal: 'Abnormal', out: 'Skip' };
const SPLITS = { train: 'Training', holdout: 'Validation', test: 'Test' };
const count = (/** @type {number} */ n) => (n === 1 ? '1 image' : `${n.toLocaleString('en')} images`);

/** @param {string} name */
const placeOf = (name) => name.replace(/^\.(?=$| \()/, 'This folder');

/** Describes the interpretation of a group. @param {Answers.ImageGroup} group */
function meaningOf({ meaning }) {
  const [split, label] = meaning.split(' ');
  return meaning === 'left out' ? 'Skipped' : `${SPLITS[/** @type {'train'} */ (split)]}, ${label}`;
}

/** Shows the first images of a group. @param {string} task @param {number} index @param {Answers.ImageGroup} group */
function samples(task, index, group) {
  const onerror = (/** @type {any} */ { target }) => target.remove();
  const image = (/** @type {number} */ number) => {
    const src = `/api/study/import/${task}/sample.png?group=${index}&number=${number}`;
    return el('img', { src, alt: `Image ${number + 1} of ${placeOf(group.name)}`, loading: 'lazy', onerror });
  };
  return dom`<div class="samples">${Array.from({ length: group.samples }, (_, number) => image(number))}</div>`;
}

/** Asks the questions. Resolves to the body of the answer, or null if the import is cancelled.
 * @param {string} task @param {Answers.ImportQuestion} question */
export function askImport(task, { groups, erased }) {
  if (erased) {
    const again = check('Import erased images again');
    const content = dom`<h2>${plural(erased, 'file')} ${erased === 1 ? 'was' : 'were'} erased from this studio</h2>
      <p>Erased images are skipped unless you import them again.</p>${again.label}`;
    return asked({ content, answer: () => ({ again: again.box.checked }), otherwise: null, yes: 'Import' });
  }
  const unclear = groups.filter((group) => !group.meaning);
  const known = groups.filter((group) => group.meaning);
  const only = unclear.length === 1 && !known.length ? unclear[0] : null;
  const images = groups.filter((g) => g.meaning !== 'left out').reduce((sum, group) => sum + group.images, 0);
  const all = images === 1 ? 'Is this image normal?' : `Are all ${images.toLocaleString('en')} images normal?`;
  const title = only ? all : unclear.length ? 'Which images are normal?' : `Import ${count(images)}?`;
  const choice = (/** @type {string} */ name) => {
    const way = (/** @type {string[]} */ [value, words]) =>
      dom`<label class="check"><input type="radio" name=${name} value=${value} required />${words}</label>`;
    const ways = Object.entries(ANSWERS).map(way);
    return el('div', { class: 'choice', role: 'radiogroup', 'aria-label': placeOf(name) }, ways);
  };
  const rows = groups.map((group, index) => {
    const { name, meaning, masks, why } = group;
    const left = meaning === 'left out';
    const facts = [left ? plural(group.images, 'file') : count(group.images), masks > 0 && `${masks} with masks`];
    const note = [meaning && name !== '.' && name, why].filter(Boolean).join(': ');
    return dom`<section>
      <p><b>${meaning ? meaningOf(group) : placeOf(name)}</b> ${facts.filter(Boolean).join(', ')}</p>
      ${note && el('small', {}, meaning ? note : `Asked because ${note}.`)}
      ${!left && samples(task, index, group)}${!meaning && !only && choice(name)}
    </section>`;
  });
  const form = el('div', { class: 'import-question' }, rows);
  const value = (/** @type {string} */ name) =>
    [...form.querySelectorAll('input')].find((box) => box.name === name && box.checked)?.value;
  const chosen = () => Object.fromEntries(unclear.map(({ name }) => [name, only ? 'normal' : value(name)]));
  const note = unclear.length
    ? 'The detectors learn what is normal from the normal images alone.'
    : 'This is how the folder was understood.';
  return asked({
    content: [el('h2', {}, title), el('p', { class: 'dim' }, note), form],
    answer: () => ({ answers: chosen() }),
    otherwise: null,
    yes: only ? (images === 1 ? 'Yes, it is normal' : 'Yes, all are normal') : 'Import',
  });
}
