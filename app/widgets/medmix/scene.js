// What the MedMix tab shows, as signals: the settings, the samples, the reader's own images, the panel next
// to the picture. The picture follows them.
import { computed, signal } from '@preact/signals';
import { study } from '../../static/store.js';

export const SAMPLES = 6;

/** The augmentations by name, with their forms. */
export const kinds = signal(/** @type {Answers.MedMixForms['strong']} */ ({}));
/** The augmentation on screen, and its settings. */
export const settings = signal({ strong: 'medmix', config: /** @type {Values} */ ({}) });
export const weakConfig = signal(/** @type {Values} */ ({}));
/** The reader's own images, shown instead of the study's: the server's token of them (empty: none), and their names. */
export const own = signal({ drop: '', files: /** @type {string[]} */ ([]) });
export const seed = signal(1);
export const side = signal(256); // pixels
export const weak = signal(false); // whether weak views are shown
// What is drawn over the picture.
export const outlines = signal(true);
export const sources = signal(false);
/** The panel next to the picture. */
export const docked = signal(/** @type {'numbers' | 'match' | null} */ (null));

/** What the server is asked to draw. */
export const scene = computed(() => ({
  study: study.value || '',
  ...settings.value,
  seed: seed.value,
  samples: SAMPLES,
  size: side.value,
  drop: own.value.drop,
  weak: weak.value,
  weak_config: weakConfig.value,
}));

/** Puts the settings of a preset on screen. @param {{strong: string, config: Values}} preset */
export const put = ({ strong, config }) => {
  settings.value = { strong, config };
};
