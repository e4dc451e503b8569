// What the Study tab knows of the open study. Each answer belongs to a key of the page's store, and is gone with it.
import { computed, effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { keepKind } from '../../static/kind.js';
import { Answered, plan, status, study } from '../../static/store.js';

const SAMPLE = 28; // cases

export const part = signal('all'); // of which the sample is drawn
export const seed = signal(0);
export const outlines = signal({ roi: true, lesion: true });

/** Whether a blind session is open on the study: its names and labels are not shown. Null before it is known. */
export const covered = computed(() => {
  const standing = status.value?.reading;
  return standing ? standing.session?.study === study.value && standing.blind.includes(study.value || '') : null;
});

/** Whether the tab has been in sight: a visit that begins in another room asks for what is shown there, and no more. */
export const seen = signal(false);

const open = () => (seen.value && covered.value === false ? study.value : null);
const at = (/** @type {string} */ id) => /** @type {`/api/study/${string}`} */ (`/api/study/${encodeURIComponent(id)}`);

export const overview = new Answered(open, (id) => api(`${at(id)}/overview`));
export const next = new Answered(open, (id) => api(`${at(id)}/next`));
export const sample = new Answered(
  () => open() && JSON.stringify([study.value, part.value, seed.value]),
  (key) => {
    const [id, from, drawn] = JSON.parse(key);
    return api(`${at(id)}/sample?count=${SAMPLE}&seed=${drawn}&part=${encodeURIComponent(from)}`);
  },
);

effect(() => {
  study.value;
  part.value = 'all';
});

const planned = computed(() => Boolean(plan.value?.stages.length));
effect(() => {
  planned.value; // what a study may do next is another when something has begun or ended
  next.renew();
});

/** Reads all of it again: cases have come in. */
export const renew = () => Promise.all([overview.renew(), sample.renew(), next.renew()]);

/** @type {import('@preact/signals').Signal<{study: string, labels: string[]} | null>} of findings, as a confirmed kind sets them */
export const findingLabels = signal(null);

/** Confirms the kind of image. @param {string} id @param {string} kind */
export async function confirmKind(id, kind) {
  findingLabels.value = { study: id, labels: await keepKind(id, kind) };
  await next.renew();
}
