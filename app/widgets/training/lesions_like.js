// The menu that says which lesions a lesion head learns from; it begins with those that fit the study's kind of image.
import { el } from '../../static/dom.js';
import { fitting } from '../../static/kind.js';

/** @param {import('../../static/answers').TrainingForms} forms */
export function lesionsLike(forms) {
  const options = Object.entries(forms.lesions).map(([name, title]) => el('option', { value: name }, title));
  const select = el('select', { class: 'lesions-like', 'aria-label': 'Lesions as in' }, options);
  if (fitting.value) select.value = fitting.value.head;
  return select;
}
