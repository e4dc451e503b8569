// The kind of image that a person has confirmed for the open study, and the fake lesions that fit it.
import { api } from './api.js';
import { Answered, started, study } from './store.js';

const at = (/** @type {string} */ id) => /** @type {const} */ (`/api/study/${encodeURIComponent(id)}/kind`);

/** The presets that fit: MedMix's and the lesion head's. */
export const fitting = new Answered(
  () => (started.value ? study.value : null),
  (id) => api(at(id)),
);

/** Keeps which kind of images a study holds. Resolves to the labels of findings, which then fit it.
 * @param {string} id @param {string} kind */
export async function keepKind(id, kind) {
  const { labels } = await api(at(id), { kind });
  await fitting.renew();
  return labels;
}
