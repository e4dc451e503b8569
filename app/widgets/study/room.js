// The Study tab's data of the open study. Each answer belongs to a key of the page's store, and is dropped with it.
import { computed, effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { Answered, fitting, plan, status, study } from '../../static/store.js';

const SAMPLE = 28; // cases

export const part = signal('all'); // the split of the sample
export const seed = signal(0);
export const outlines = signal({ roi: true, lesion: true });

/** Whether a blind session is open on the study, so that its names and labels are hidden. Null before it is known. */
export const covered = computed(() => {
  const standing = status.value?.reading;
  return standing ? standing.session?.study === study.value && standing.blind.includes(study.value || '') : null;
});

/** Whether the tab has been visible: a visit that begins in another tab fetches only that tab's data. */
export const seen = signal(false);

/** The open study, once its contents may be fetched. */
export const open = () => (seen.value && covered.value === false ? study.value : null);
export const openPanel = signal(''); // the administrator's panel that is unfolded

const at = (/** @type {string} */ id) => /** @type {`/api/study/${string}`} */ (`/api/study/${encodeURIComponent(id)}`);

export const overview = new Answered(open, (id) => api(`${at(id)}/overview`));
export const next = new Answered(open, (id) => api(`${at(id)}/next`));
/** @type {Answered<string, Answers.Sample>} */
export const sample = new Answered(() => {
  const id = open();
  return id && `${at(id)}/sample?count=${SAMPLE}&seed=${seed.value}&part=${encodeURIComponent(part.value)}`;
});

effect(() => {
  study.value;
  part.value = 'all';
});

const planned = computed(() => Boolean(plan.value?.stages.length));
effect(() => {
  planned.value; // the next steps change when something has begun or ended
  next.renew();
});

/** Reloads everything after new cases. */
export const renew = () => Promise.all([overview.renew(), sample.renew(), next.renew()]);

/** @type {import('@preact/signals').Signal<{study: string, labels: string[]} | null>} finding labels, set when a kind is confirmed */
export const findingLabels = signal(null);

/** Confirms the kind of image. @param {string} id @param {string} kind */
export async function confirmKind(id, kind) {
  const { labels } = await api(`${at(id)}/kind`, { kind });
  await fitting.renew();
  findingLabels.value = { study: id, labels };
  await next.renew();
}
