// The menu that says which lesions a lesion head learns from.
import { el } from '../../static/dom.js';

/** @param {import('../../static/answers').TrainingForms} forms */
export const lesionsLike = (forms) =>
  el(
    'select',
    { class: 'lesions-like', 'aria-label': 'Lesions as in' },
    Object.entries(forms.lesions).map(([name, title]) => el('option', { value: name }, title)),
  );
