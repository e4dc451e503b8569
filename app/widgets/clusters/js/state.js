// What the Clusters tab shows, as signals that its maps and panels follow, and the actions that change it. The
// selection is one for both maps: it names points by their identity.
import { batch, computed, signal } from '@preact/signals';
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { underWay } from '../../../static/plan.js';
import { study } from '../../../static/store.js';

/** @typedef {import('./pane.js').Pane} Pane */
/** @template T @typedef {import('@preact/signals').Signal<T>} Signal */

/** Two maps; filled when the tab is made. @type {Pane[]} */
export const panes = [];
export const isSplit = signal(false); // whether both are shown
export const active = signal(0); // index of the one that was used last
export const tool = signal('pan');
export const marks = signal(true); // whether centres are drawn
export const colour = signal('class'); // the column that colours the points
/** The run whose scores can colour them. @type {Signal<string | null>} */
export const fit = signal(null);
/** Classes that are switched off, by column. @type {Signal<Record<string, string[]>>} */
export const hidden = signal({});
/** The identities of the selected points and of the one that is looked at.
 * @type {Signal<{ids: Set<number>, focus?: number}>} */
export const selection = signal({ ids: new Set() });
/** The identities of the points shown in isolation. @type {Signal<Set<number> | null>} */
export const only = signal(null);
/** The point under the pointer. @type {Signal<{pane: Pane, i: number, x: number, y: number} | null>} */
export const tip = signal(null);

/** @type {{runs: Answers.EncoderRun[], maps: Answers.MapRow[], views: Answers.SavedView[]}} */
const none = { runs: [], maps: [], views: [] };
export const listed = signal(none);
export const ready = computed(() => listed.value.maps.filter((m) => m.ready));
/** The map that is being drawn. */
export const drawing = computed(() => listed.value.maps.find((m) => !m.ready && underWay(m.job_status)));
export const opening = signal(true);
export const refusal = signal(''); // why nothing of the study is shown
let wanted = ''; // the map that was requested here and is not ready yet

/** The panes that show a map. */
export const shown = computed(() => panes.filter((p, i) => p.map && (!i || isSplit.value)));
/** The pane that the panels describe. */
export const current = computed(() => (panes[active.value].map ? panes[active.value] : panes[0]));

// Studies and maps -----------------------------------------------------------------------------
export async function openStudy() {
  const id = study.value;
  batch(() => {
    opening.value = Boolean(id); // nothing is reported missing before it has been fetched
    refusal.value = '';
    listed.value = none;
    for (const pane of panes) pane.blank();
    clear();
    split(false);
  });
  try {
    await list();
  } catch (error) {
    if (id === study.value) refusal.value = error.message;
  }
  if (id === study.value) opening.value = false;
}

// Fetches the list again: Training may have saved a first encoder meanwhile.
export async function renew() {
  if (!study.value || opening.value) return;
  try {
    if (!refusal.value) return await list();
  } catch {
    // data that the reader may no longer see are removed, with the reason
  }
  await openStudy();
}

/** Fetches the encoders and maps. Opens the map that was requested here; else, if none is open, the first.
 * @param {string} [key] of a map that has just been requested */
export async function list(key) {
  const id = study.value;
  if (!id) return;
  wanted = key || wanted;
  const of = encodeURIComponent(id);
  const [{ runs }, { maps, views }] = await Promise.all([
    api(`/api/clusters/runs?study=${of}`),
    api(`/api/clusters/maps?study=${of}`),
  ]);
  if (id !== study.value) return;
  listed.value = { runs, maps, views };
  const asked = maps.find((m) => m.key === wanted);
  const failed = !asked?.ready && asked?.job_status === 'failed';
  if (asked?.ready || failed) wanted = '';
  if (failed) toast(asked.message || 'The map could not be drawn.', 'bad');
  const come = asked?.ready ? asked : !panes[0].map && ready.value[0];
  if (come) await open(panes[active.value], come.key);
}

/** Opens a map, or loads it again. @param {Pane} pane @param {string} key */
export async function open(pane, key) {
  if (!(await orToast(pane.open(key)))) return;
  active.value = panes.indexOf(pane);
  fit.value = pane.fit;
}

/** @param {boolean} on whether to show two maps */
export async function split(on) {
  const [first, second] = panes;
  isSplit.value = on;
  active.value = 0;
  if (!on) return second.stop();
  await open(second, (ready.value.find((m) => m.key !== first.map.key) || ready.value[0]).key);
  active.value = 0;
}

// Selection --------------------------------------------------------------------------------------
/** @param {Pane} pane @returns {number[]} */
export const pointsOf = (pane) => (pane.map ? pane.map.findAll(selection.value.ids) : []);

/** Selects points. @param {Pane} pane @param {number[]} points */
export function select(pane, points) {
  selection.value = { ids: new Set(points.map((i) => pane.map.ids[i])) };
}
/** Looks at a point; of the selection, only several points stay. @param {Pane} pane @param {number} i */
export function look(pane, i) {
  const { ids } = selection.value;
  selection.value = { ids: ids.size > 1 ? ids : new Set(), focus: pane.map.ids[i] };
}
/** @param {Pane} pane @param {number} i the point, or -1 @param {boolean} add */
export function click(pane, i, add) {
  if (i < 0) return clear();
  if (!add) return look(pane, i);
  const points = new Set(pointsOf(pane));
  if (!points.delete(i)) points.add(i);
  select(pane, [...points]);
}
export function clear() {
  only.value = null;
  selection.value = { ids: new Set() };
}
/** Rings a point on all maps, or none (-1). @param {Pane} pane @param {number} i */
export function flash(pane, i) {
  for (const { map, plot } of shown.value) plot.setHover(plot === pane.plot ? i : map.find(pane.map.ids[i]));
}

// Colours ----------------------------------------------------------------------------------------
/** Fetches the columns, with the scores of a run. @param {string | null} run */
export async function scoresOf(run) {
  fit.value = run;
  await Promise.all(shown.value.map((pane) => pane.refreshColumns()));
}
/** @param {string} column @param {string} name */
export function toggle(column, name) {
  const off = new Set(hidden.value[column]);
  if (!off.delete(name)) off.add(name);
  hidden.value = { ...hidden.value, [column]: [...off] };
}
/** Shows one class only, or all again. @param {string} column @param {string} name @param {string[]} names */
export function alone(column, name, names) {
  const off = hidden.value[column] || [];
  const others = names.filter((n) => n !== name);
  const already = !off.includes(name) && others.every((n) => off.includes(n));
  hidden.value = { ...hidden.value, [column]: already ? [] : others };
}
