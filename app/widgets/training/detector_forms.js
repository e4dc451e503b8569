// The detectors to fit after the training, and their settings.
import { check, el, options } from '../../static/dom.js';
import { Form } from '../../static/form.js';
import { fitting } from '../../static/store.js';

/** The menu of the lesions that a lesion head learns from; it starts with those for the study's kind of image.
 * @param {Answers.TrainingForms} forms */
export function lesionsLike(forms) {
  const look = { class: 'lesions-like', 'aria-label': 'Synthetic lesions for' };
  const select = el('select', look, options(Object.entries(forms.lesions)));
  if (fitting.value) select.value = fitting.value.head;
  return select;
}

/** @param {Answers.TrainingForms} forms */
export function detectorForms(forms) {
  const detectors = Object.entries(forms.detectors).map(([name, { title, form, defaults, lesions }], i) => {
    const groups = form.map((group) => ({ ...group, title }));
    const settings = new Form(groups, structuredClone(defaults), () => {}, { open: 0, prefix: `${name}.` });
    const box = check(title, { checked: i === 0, 'data-detector': name, onchange: () => chosen() });
    return { name, lesions, settings, defaults, usual: i === 0, ...box };
  });
  /** Shows only the settings of ticked detectors. */
  function chosen() {
    for (const { box, settings } of detectors) settings.element.hidden = !box.checked;
    likeLabel.hidden = !detectors.some(({ box, lesions }) => box.checked && Object.keys(lesions).length);
  }
  const like = lesionsLike(forms);
  const follow = () => {
    for (const { lesions, settings } of detectors)
      if (lesions[like.value]) settings.set(structuredClone(lesions[like.value]));
  };
  like.onchange = follow;
  fitting.held.subscribe(() => {
    if (!fitting.value) return;
    like.value = fitting.value.head;
    follow();
  });
  const title = 'Kind of image that the synthetic lesions of the lesion head are made for';
  const likeLabel = el('label', { class: 'like', title }, 'Synthetic lesions for', like);
  chosen();
  return {
    boxes: detectors.map((d) => d.label),
    like: likeLabel,
    forms: detectors.map((d) => d.settings.element),
    /** Resets all choices. */
    reset() {
      for (const { settings, defaults, usual, box } of detectors) {
        settings.set(structuredClone(defaults));
        box.checked = usual;
      }
      if (fitting.value) like.value = fitting.value.head;
      follow();
      chosen();
    },
    /** Returns the settings of ticked detectors, by name. */
    chosen: () => Object.fromEntries(detectors.filter((d) => d.box.checked).map((d) => [d.name, d.settings.get()])),
  };
}
