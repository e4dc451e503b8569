// The confirmed kind of image of the open study, and the fake lesions that fit it.
import { api } from './api.js';
import { Answered, started, study } from './store.js';

const at = (/** @type {string} */ id) => /** @type {const} */ (`/api/study/${encodeURIComponent(id)}/kind`);

/** The matching presets of MedMix and the lesion head. */
export const fitting = new Answered(
  () => (started.value ? study.value : null),
  (id) => api(at(id)),
);

/** Stores a study's kind of image. Resolves to the labels of findings, which follow it.
 * @param {string} id @param {string} kind */
export async function keepKind(id, kind) {
  const { labels } = await api(at(id), { kind });
  await fitting.renew();
  return labels;
}
