// The panel's part on the image itself: window and level, inversion.
import { el } from '../../../static/dom.js';
import { slider, toggle } from './parts.js';

/** @param {import('./review_view.js').ReviewView} review */
export function imageControls(review) {
  const { display } = review;
  const level = slider('Level', {
    max: 255,
    value: 128,
    title: 'Window level (drag with the right button)',
    input: (v) => display.setWindow({ centre: v }),
  });
  const width = slider('Window', {
    min: 1,
    max: 255,
    value: 255,
    title: 'Window width (drag with the right button)',
    input: (v) => display.setWindow({ width: v }),
  });
  const presets = el('select', {
    'aria-label': 'Window presets',
    title: 'Window presets',
    onchange: () => display.preset(presets.value),
  });
  const invert = toggle('Invert', 'I', () => review.act('invert'));
  const keep = el(
    'button',
    {
      type: 'button',
      class: 'rv-toggle',
      title: 'Keep this window for the next cases; else each begins with its full range',
      'aria-pressed': 'false',
      onclick: () => display.keepWindow(!review.show.keepWindow),
    },
    'Keep',
  );
  const reset = el(
    'button',
    { type: 'button', title: 'Back to the full range', disabled: true, onclick: () => display.preset('') },
    'Reset',
  );
  return { level, width, presets, invert, keep, reset };
}
