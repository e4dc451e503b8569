// The forms that start jobs on maps: one draws a new map, the other places new images (a folder on this machine, or a
// study) on a map and lists those to remove.
import { signal, useSignal } from '@preact/signals';
import { api } from '../../../static/api.js';
import { orToast, submitted, toast } from '../../../static/dialogs.js';
import { underWay } from '../../../static/plan.js';
import { status, study } from '../../../static/store.js';
import { button, html } from '../../../static/view.js';
import { METHODS } from './model.js';
import { Menu } from './panels.js';
import { current, drawing, list, listed, open, shown } from './state.js';

const CHOICE = { run: '', method: 'tsne', feature: 'centred', epochs: 'last' };
const SETTINGS = { seed: 0, perplexity: 30, neighbours: 15, min_dist: 0.1 };
const POINTS = { normal: 300, abnormal: 300, mixed: 300 };
const FEATURES = { centred: 'centred, f − cₙ', projected: 'projected, f', backbone: 'backbone' };
/** The settings that are numbers; method: the only one that they matter to.
 * @type {{name: keyof typeof SETTINGS | keyof typeof POINTS, title: string, max: number, min?: number, step?: number,
 * method?: string}[]} */
const NUMBERS = [
  { name: 'seed', title: 'Seed', max: 99_999 },
  { name: 'perplexity', title: 'Perplexity', min: 2, max: 200, method: 'tsne' },
  { name: 'neighbours', title: 'Neighbours', min: 2, max: 200, method: 'umap' },
  { name: 'min_dist', title: 'Minimum distance', max: 0.99, step: 0.05, method: 'umap' },
  { name: 'normal', title: 'Normals per split', max: 100_000 },
  { name: 'abnormal', title: 'Abnormal', max: 100_000 },
  { name: 'mixed', title: 'MedMix per Aₙ', max: 100_000 },
];

/** How far a job is. @param {{row: Pick<Answers.MapRow, 'job_status' | 'progress' | 'message'>, waits: string,
 * children?: any}} props waits: said while it has not started */
function Working({ row, waits, children }) {
  const runs = row.job_status === 'running';
  return html`<div class="working">
    <progress max="1" value=${runs ? row.progress : undefined} />
    <p class="dim said" role="status">${runs ? row.message : waits}</p>
    ${children}
  </div>`;
}

/** Asks for a new map. */
export function MapForm() {
  const given = useSignal({ ...CHOICE, ...SETTINGS, ...POINTS });
  const asking = useSignal(false);
  const { runs } = listed.value;
  const row = drawing.value;
  const run = runs.find((r) => r.id === given.value.run) || runs[0];
  const { method } = given.value;
  const put = (/** @type {string} */ name) => (/** @type {string | number} */ value) => {
    given.value = { ...given.value, [name]: value };
  };
  const epochs = run?.epochs || [];
  const [first, last] = [epochs[0], epochs.at(-1)];
  /** @type {[value: string, words: string, epochs: number[]][]} */
  const ways = [
    ['last', last === undefined ? 'last' : `last, ${last}`, epochs.slice(-1)],
    ['ends', `${first} and ${last}`, [first, Number(last)]],
    ['all', `all ${epochs.length}`, epochs],
    ...epochs.map((e) => /** @type {[string, string, number[]]} */ ([String(e), `epoch ${e}`, [e]])),
  ];
  if (epochs.length < 2) ways.splice(1, 2);
  const [when, , of] = ways.find(([value]) => value === given.value.epochs) || ways[0];
  // Pretrained weights have no class centres and an untrained head.
  const bare = run?.centred === false;
  const feature = bare ? 'backbone' : given.value.feature;
  const go = async () => {
    const { normal, abnormal, mixed, run: _, ...others } = given.value;
    const points = { train: normal, holdout: normal, test_normal: normal, abnormal, mixed };
    const body = { run: run.id, config: { ...others, feature, epochs: of, points } };
    asking.value = true;
    const map = await orToast(api('/api/clusters/maps', body));
    if (map) await orToast(list(map.key));
    asking.value = false;
  };
  const stop = () => orToast(api(`/api/clusters/maps/${row?.key}/stop`, {}));
  const title = (/** @type {Answers.EncoderRun} */ { name, status }) =>
    status === 'done' ? name : `${name}, ${status}`;
  const done = runs.find((r) => r.id === row?.run)?.status === 'done';
  const number = (/** @type {typeof NUMBERS[number]} */ { name, title, min = 0, max, step }) => html`<label>
    ${title}<input type="number" class=${name} ...${{ min, max, step }} value=${given.value[name]}
      onChange=${(/** @type {any} */ event) => put(name)(Number(event.target.value))} />
  </label>`;
  return html`<h2>New map</h2>
    <${Menu} title="Encoder" name="run" value=${run?.id} help=${run?.name} choose=${put('run')}
      choices=${runs.length ? runs.map((r) => [r.id, title(r)]) : [['', 'none yet']]} />
    <div class="row">
      <${Menu} title="Method" name="method" value=${method} choices=${Object.entries(METHODS)} choose=${put('method')} />
      <${Menu} title="Epochs" name="epochs" value=${when} choices=${ways} choose=${put('epochs')} />
    </div>
    <${Menu} title="Features" name="feature" value=${feature} choices=${Object.entries(FEATURES)}
      off=${bare ? ['centred', 'projected'] : []} choose=${put('feature')} />
    <details class="more">
      <summary class="dim">Settings</summary>
      <div class="grid">${NUMBERS.filter((n) => (n.method || method) === method).map(number)}</div>
    </details>
    ${button('Draw map', go, { class: 'main go', disabled: asking.value || Boolean(row) || !run })}
    ${
      row &&
      html`<${Working} row=${row} waits=${done ? 'Waiting in the queue' : 'Waiting for the encoder'}>
        ${button('Stop', stop, { class: 'small stop-map' })}
      <//>`
    }`;
}

/** The set in progress. */
const placing = signal(/** @type {Answers.Projections['sets'][number] | undefined} */ (undefined));
/** @type {{map: string, key: string} | null} the set that was requested here and is not ready yet */
let wanted = null;

/** @param {FormData} given */
async function place(given) {
  const { map } = current.value;
  const [folder, other] = ['place-folder', 'place-study'].map((name) => String(given.get(name)).trim());
  if (!folder && !other) throw new Error('Enter the path of a folder, or choose a study.');
  const { key, ready } = await api(`${map.base}/placed`, folder ? { folder } : { study: other });
  if (ready) return reload(map.key);
  wanted = { map: map.key, key };
  await follow();
}

/** Checks the map on which images are being placed: the one that was requested here, else the one on screen. */
export async function follow() {
  const { map } = current.value;
  const key = wanted?.map || (map?.waiting.some((s) => underWay(s.job_status)) && map.key);
  if (!key) return;
  const { sets } = await api(`/api/clusters/maps/${key}/placed`);
  placing.value = sets.find((s) => !s.ready && underWay(s.job_status));
  if (placing.value) return;
  const failed = sets.find((s) => s.key === wanted?.key && !s.ready);
  wanted = null;
  if (failed) toast(failed.message || 'The images could not be placed.', 'bad');
  await reload(key);
}

// Every pane with this map reloads it; camera, epoch and selection stay.
/** @param {string} key of the map */
async function reload(key) {
  for (const pane of shown.value) if (pane.map.key === key) await open(pane, key);
}

/** @param {import('./model.js').ProjectedSet} set */
async function remove(set) {
  const { map } = current.value;
  await api(`${map.base}/placed/${set.key}`, undefined, { method: 'DELETE' });
  await reload(map.key);
}

/** Asks for new images on the map, and lists those on it. */
export function Place() {
  const { map } = current.value;
  if (!map) return null;
  const row = placing.value;
  const line = (/** @type {import('./model.js').ProjectedSet} */ set) => {
    const far = set.far[set.far.length - 1].filter(Boolean).length;
    const lost = set.left_out.length ? ` ${set.left_out.length} files could not be read.` : '';
    const look = { class: 'small', 'aria-label': `Remove ${set.title} from the map` };
    return html`<div class="line">
      <span class="name" title="${set.names.length} images; ${far} far from every image of the map.${lost}">
        ${set.title}, ${set.names.length.toLocaleString('en')}
      </span>
      ${button('\u00d7', () => orToast(remove(set)), look)}
    </div>`;
  };
  const title = (/** @type {string} */ s) => (s === study.value ? `${s}, images not on the map` : s);
  return html`<h3>New images on this map</h3>
    <div class="sets">${map.sets.map(line)}</div>
    <form onSubmit=${submitted(place)}>
      <label>Folder on this machine<input type="text" class="place-folder" name="place-folder"
        aria-label="Folder on this machine" placeholder="/path/to/images" /></label>
      <${Menu} title="or a study" name="place-study"
        choices=${[['', 'none'], ...(status.value?.studies || []).map((s) => [s, title(s)])]} />
      <button class="main put" disabled=${Boolean(row)}>Place</button>
    </form>
    ${row && html`<${Working} row=${row} waits="Waiting for the running job" />`}
    <p class="dim">Each image is placed among its ten nearest neighbours in feature space. The map is not refitted.</p>`;
}
