// An import's questions before it stores anything: the meaning of the groups of images, whether the interpretation is
// right, and whether to import erased images again.
import { asked } from '../../static/dialogs.js';
import { check, el } from '../../static/dom.js';
import { plural } from '../../static/format.js';

const ANSWERS = { normal: 'Normal', abnormal: 'Abnormal', out: 'Leave out' };
const SPLITS = { train: 'Training', holdout: 'Validation', test: 'Test' };
const count = (/** @type {number} */ n) => (n === 1 ? '1 image' : `${n.toLocaleString('en')} images`);

/** @param {string} name */
const placeOf = (name) => name.replace(/^\.(?=$| \()/, 'This folder');

/** Describes the interpretation of a group. @param {Answers.ImageGroup} group */
function meaningOf({ meaning }) {
  const [split, label] = meaning.split(' ');
  return meaning === 'left out' ? 'Left out' : `${SPLITS[/** @type {'train'} */ (split)]}, ${label}`;
}

/** Shows the first images of a group. @param {string} task @param {number} index @param {Answers.ImageGroup} group */
const samples = (task, index, group) =>
  el(
    'div',
    { class: 'samples' },
    Array.from({ length: group.samples }, (_, number) =>
      el('img', {
        src: `/api/study/import/${task}/sample.png?group=${index}&number=${number}`,
        alt: `Image ${number + 1} of ${placeOf(group.name)}`,
        loading: 'lazy',
        onerror: (/** @type {Event} */ event) => /** @type {HTMLElement} */ (event.target).remove(),
      }),
    ),
  );

/** Asks the questions. Resolves to the body of the answer, or null if the import is cancelled.
 * @param {string} task @param {Answers.ImportQuestion} question */
export function askImport(task, { groups, erased }) {
  if (erased) {
    const again = check('Take in again what was erased');
    return asked({
      content: [
        el('h2', {}, `${plural(erased, 'file')} ${erased === 1 ? 'was' : 'were'} erased from this studio`),
        el('p', {}, 'Erased images are skipped unless you take them in again.'),
        again.label,
      ],
      answer: () => ({ again: again.box.checked }),
      otherwise: null,
      yes: 'Import',
    });
  }
  const unclear = groups.filter((group) => !group.meaning);
  const known = groups.filter((group) => group.meaning);
  const only = unclear.length === 1 && !known.length ? unclear[0] : null;
  const images = groups.filter((g) => g.meaning !== 'left out').reduce((sum, group) => sum + group.images, 0);
  const all = images === 1 ? 'Is this image normal?' : `Are all ${images.toLocaleString('en')} images normal?`;
  const title = only ? all : unclear.length ? 'Which images are normal?' : `Import ${count(images)}?`;
  const choice = (/** @type {Answers.ImageGroup} */ group) =>
    el(
      'div',
      { class: 'choice', role: 'radiogroup', 'aria-label': placeOf(group.name) },
      Object.entries(ANSWERS).map(([value, words]) =>
        el('label', { class: 'check' }, el('input', { type: 'radio', name: group.name, value, required: true }), words),
      ),
    );
  const rows = groups.map((group, index) => {
    const { name, meaning, masks, why } = group;
    const place = placeOf(name);
    const left = meaning === 'left out';
    const facts = [left ? plural(group.images, 'file') : count(group.images), masks > 0 && `${masks} with masks`];
    const note = [meaning && name !== '.' && name, why].filter(Boolean).join(': ');
    return el(
      'section',
      {},
      el('p', {}, el('b', {}, meaning ? meaningOf(group) : place), ` ${facts.filter(Boolean).join(', ')}`),
      note && el('small', {}, meaning ? note : `Asked because ${note}.`),
      left ? null : samples(task, index, group),
      meaning || only ? null : choice(group),
    );
  });
  const form = el('div', { class: 'import-question' }, rows);
  const boxes = () => [.../** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll('input'))];
  const chosen = () =>
    Object.fromEntries(
      unclear.map(({ name }) => [
        name,
        only ? 'normal' : boxes().find((box) => box.name === name && box.checked)?.value,
      ]),
    );
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
