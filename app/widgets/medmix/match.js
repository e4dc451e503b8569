// "Match lesions": the reader chooses real lesions, and a search finds settings whose lesions look like them.
import { computed, signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { download, finder } from '../../static/dom.js';
import { tidy } from '../../static/fields.js';
import { fixed, plural } from '../../static/format.js';
import { underWay } from '../../static/plan.js';
import { study } from '../../static/store.js';
import { button, given, html } from '../../static/view.js';
import { grids } from './grid.js';
import { Curves, Missed } from './measured.js';
import { outline, pictureOf } from './outline.js';
import { same, save } from './presets.js';
import { docked, kinds, own, put, settings } from './scene.js';

/** @typedef {Answers.Field} Field */
/** @typedef {import('./outline.js').Outlined} Outlined */

const LOOK = 600; // milliseconds between checks of a search
const FEW = 5; // lesions chosen by one click
const IN_ROW = 12; // maximum pictures of lesions in a row above the grid
/** @type {Record<string, string>} */
const ENDED = { failed: 'The search failed: ', cancelled: 'Stopped: the best settings so far were kept. ' };
const TASK = 'Choose real lesions. A search then changes MedMix’s settings until pasted lesions look like them.';
const NO_MASKS = 'This study has no reference or accepted masks. Outline a lesion on an image of your own.';
const SCALE = 'At 1, pasted lesions differ from real ones as much as normal tissue does; at 0, not at all.';
const UNKNOWN = 'The distance to other lesions is unknown: it takes lesions of at least four patients.';

/** Formats a setting's value as its control does. @param {Field | undefined} field @param {any} value */
function written(field, value) {
  if (Array.isArray(value)) return value.map(tidy).join(field?.kind === 'range' ? ' – ' : ', ');
  if (typeof value === 'number') return tidy(value);
  const names = field?.kind === 'several' || field?.kind === 'choice' ? field.names : {};
  return String(value).split('+').map((one) => names[one] || one).join(', '); // biome-ignore format: one line
}

/** Addresses of the chosen lesions' pictures, by case number or by number of the outlined lesion. */
const chosen = signal(/** @type {Map<string, string>} */ (new Map()));
const outlined = signal(/** @type {Outlined[]} */ ([]));
const offered = signal(/** @type {Answers.OfferedLesions | null} */ (null));
const search = signal(/** @type {Answers.Search | null} */ (null)); // null while lesions are being chosen
/** Pictures of the lesions in the grid. */
const pasted = computed(() => {
  const grid = grids.value[0]?.grid;
  if (!grid) return [];
  const { mosaic, outlines, side } = grid;
  const firsts = outlines.flatMap((row, n) =>
    row.flatMap((lines, m) => lines.slice(0, 1).map((line) => ({ line, n, m }))),
  );
  const pictures = firsts.slice(0, IN_ROW);
  return pictures.map(({ line, n, m }) => pictureOf(mosaic, line, side, side, m * side, n * side));
});
let drawn = ''; // the settings that the search put on screen last, as JSON
let waiting = 0;
const isOpen = () => docked.value === 'match';

// Another study has other lesions.
study.subscribe(() => {
  if (docked.peek() === 'match') docked.value = null;
  search.value = offered.value = null;
  chosen.value = new Map();
  outlined.value = [];
});
// Images that are dropped or chosen while lesions are being chosen are there to be outlined.
own.subscribe(({ drop }) => {
  if (drop && isOpen() && !search.value) outlineOwn();
});

/** Opens the panel, with the study's latest search if it still runs. */
export async function open() {
  if (!study.value) throw new Error('Choose or import a study first: lesions are pasted into its normal images.');
  docked.value = 'match';
  offered.value = await api(`/api/medmix/lesions?study=${encodeURIComponent(study.value)}`);
  const { latest } = offered.value;
  if (latest && !search.value) {
    const found = await api(`/api/medmix/match/${latest}`);
    if (underWay(found.job?.status)) search.value = found;
  }
  await follow();
}

/** Chooses a lesion, or takes the choice back. @param {string} key @param {string} picture */
function toggle(key, picture) {
  const now = new Map(chosen.value);
  const most = offered.value?.most || 0;
  if (!now.delete(key)) {
    if (now.size >= most) return toast(`At most ${most} lesions can be matched.`, 'note');
    now.set(key, picture);
  }
  chosen.value = now;
}

/** Opens the outline dialog; asks for own images first if there are none. */
function outlineOwn() {
  if (!own.value.drop) return finder(document)('.medmix-room .own-files').click();
  outline((lesion) => {
    toggle(`outlined ${outlined.value.length}`, lesion.picture);
    outlined.value = [...outlined.value, lesion];
  });
}

/** @param {number} seconds */
async function begin(seconds) {
  const keys = [...chosen.value.keys()];
  const drawnHere = outlined.value.filter((_, i) => keys.includes(`outlined ${i}`));
  const { match } = await api('/api/medmix/match', {
    study: study.value,
    seconds,
    cases: keys.map(Number).filter((id) => id),
    outlined: drawnHere.map(({ drop, file, outline: line }) => ({ drop, file, outline: line })),
  });
  own.value = { drop: '', files: [] }; // the results are shown on the study's images
  search.value = await api(`/api/medmix/match/${match}`);
  await follow();
}

/** Follows the search until it ends, and puts its best settings on screen. It continues while the panel is closed. */
async function follow() {
  clearTimeout(waiting);
  const { id } = search.value || {};
  if (!id || !isOpen()) return;
  const now = await api(`/api/medmix/match/${id}`);
  if (search.value?.id !== id || !isOpen()) return;
  search.value = now;
  const config = JSON.stringify(now.state?.config);
  if (now.state && config !== drawn) {
    drawn = config;
    put({ strong: 'medmix', config: now.state.config });
  }
  if (underWay(now.job?.status)) waiting = setTimeout(() => orToast(follow()), LOOK);
}

/** The chosen lesions above those that the settings paint. */
export function Rows() {
  if (!isOpen() || !search.value) return null;
  const row = (/** @type {string} */ name, /** @type {string[]} */ pictures) =>
    html`<div role="group" aria-label="${name} lesions">
      <span class="dim">${name}</span>${pictures.slice(0, IN_ROW).map((src) => html`<img src=${src} alt="" />`)}
    </div>`;
  const real = [...chosen.value.values()];
  return [real.length > 0 && row('Real', real), row('Pasted', pasted.value)];
}

export function Panel() {
  if (!offered.value) return null;
  if (!search.value) return html`<${Choice} offered=${offered.value} />`;
  return html`<${underWay(search.value.job?.status) ? Progress : Result} ...${search.value} />`;
}

/** @param {{offered: Answers.OfferedLesions}} props */
function Choice({ offered: { lesions, most } }) {
  const [seconds, setSeconds] = useState('60');
  const tile = (/** @type {string} */ key, /** @type {string} */ src, /** @type {string} */ name) =>
    button(html`<img src=${src} alt="" loading="lazy" width="64" height="64" />`, () => toggle(key, src), {
      class: 'lesion',
      title: name,
      'aria-label': name,
      'aria-pressed': chosen.value.has(key),
    });
  const of = encodeURIComponent(study.value || '');
  const pictureOfCase = (/** @type {number} */ id) => `./api/medmix/lesions/${id}/patch.png?study=${of}`;
  const some = () => {
    const step = Math.max(1, lesions.length / FEW);
    const few = Array.from({ length: FEW }, (_, i) => lesions[Math.floor(i * step)].case);
    chosen.value = new Map(few.map((id) => [String(id), pictureOfCase(id)]));
  };
  const tiles = [
    ...outlined.value.map(({ picture, file }, i) => tile(`outlined ${i}`, picture, `${file}, outlined here`)),
    ...lesions.map(({ case: id, name, kind }) =>
      tile(String(id), pictureOfCase(id), `${name}${kind === 'readers' ? ', annotated by readers' : ''}`),
    ),
  ];
  return html`<p class="dim">${TASK}</p>
    ${tiles.length > 0 && html`<div class="lesions" role="group" aria-label="Lesions">${tiles}</div>`}
    ${!tiles.length && html`<p>${NO_MASKS}</p>`}
    <div class="row">
      <b class="num">${chosen.value.size} of at most ${most} chosen</b>
      ${lesions.length > FEW && button(`Choose ${FEW} lesions`, some, { class: 'link' })}
      ${button('Outline on own image…', outlineOwn, { class: 'link outline-own' })}
    </div>
    <div class="row">
      <label>Search for<input type="number" min="5" max="3600" aria-label="Seconds to search" value=${seconds}
        onInput=${given(setSeconds)} />s</label>
      ${button('Match', () => orToast(begin(Number(seconds))), { class: 'main', disabled: !chosen.value.size })}
    </div>`;
}

/** The best distance so far, and its course. @param {Answers.MatchState} props */
function Distance({ before, after, seconds, history, preset }) {
  const line = { name: '', points: [[0, before], ...history, [seconds, after]], thick: true };
  return html`<p class="big num">${fixed(after, 2)}<small>distance; preset ${preset}: ${fixed(before, 2)}</small></p>
    <${Curves} title="Distance" unit="second" lines=${[line]} />`;
}

/** @param {Answers.Search} props */
function Progress({ id, state, limit, job, count }) {
  const spent = state?.seconds || 0;
  const words = state
    ? `${plural(state.tries, 'setting')} tried, ${Math.max(0, Math.round(limit - spent))} s left`
    : job?.status === 'queued'
      ? 'Waiting in the queue…'
      : `Reading ${plural(count, 'lesion')}…`;
  const stop = async () => {
    search.value = await api(`/api/medmix/match/${id}/stop`, {});
  };
  return html`<p role="status">${words}</p>
    <progress max=${limit} value=${Math.min(spent, limit)} aria-label="Search" />
    ${state && html`<${Distance} ...${state} />`}
    <p class="dim">${SCALE}</p>
    ${button(state ? 'Stop and keep the best' : 'Stop', () => orToast(stop()))}`;
}

/** @param {Answers.Search} props */
function Result({ id, state, job, count }) {
  const { config } = settings.value;
  const choose = () => {
    search.value = null;
  };
  const again = button('Match other lesions', choose, { class: 'link' });
  const ended = ENDED[job?.status || ''];
  const error = ended ? ended + (job?.error || '') : '';
  if (!state) return html`<p class="bad">${error || 'The search found no settings.'}</p>${again}`;
  const { left_out: others, left_out_before: before, settings: mattered = [] } = state;
  const nearer = others == null || before == null || others < before;
  const preset = before == null ? '' : ` (preset ${state.preset}: ${fixed(before, 2)})`;
  const known = others == null ? UNKNOWN : `On held-out lesions (cross-validated): ${fixed(others, 2)}${preset}.`;
  const changed = same(config, { ...config, ...state.config }) ? '' : '; changed by hand since';
  const note = (state.note || `Matched to ${plural(count, 'lesion')}`) + changed;
  const saveFile = async () => {
    const found = await api(`/api/medmix/match/${id}/export`, { name: 'matched', config });
    download(new Blob([JSON.stringify(found.preset, null, 2)], { type: 'application/json' }), 'matched.json');
  };
  const setting = (/** @type {Answers.MatchedSetting} */ one) =>
    html`<${Setting} setting=${one} after=${state.after} />`;
  return html`${error && html`<p class="warn">${error}</p>`}
    <${Distance} ...${state} />
    <p class=${nearer ? '' : 'warn'}>
      ${known}${nearer ? '' : ' The preset is closer to other lesions: choose more lesions to match.'}
    </p>
    ${state.words && html`<p>Settings that mattered: ${state.words}.</p>`}
    ${mattered.length > 0 && html`<div class="changed">${mattered.map(setting)}</div>`}
    <div class="row">
      ${button('Save as preset…', () => orToast(save(note)), { class: 'main' })}
      ${button('JSON ↓', () => orToast(saveFile()), { title: 'Save settings and their source as JSON' })}
      ${again}
    </div>
    <h3>What would be missed</h3>
    <div class="missed"><${Missed} /></div>`;
}

/** A checkbox for a setting that the search changed; a click undoes the change.
 * @param {{setting: Answers.MatchedSetting, after: number}} props */
function Setting({ setting: { name, before, after: now, without }, after }) {
  const { config } = settings.value;
  const isKept = same({ now: config[name] }, { now });
  const field = kinds.value.medmix.form.flatMap(({ fields }) => fields).find(({ key }) => key === name);
  const turn = () => put({ strong: 'medmix', config: { ...config, [name]: isKept ? before : now } });
  const gains = without - after;
  return html`<label title="Without this change the distance is ${fixed(without, 2)}">
    <input type="checkbox" checked=${isKept} aria-label="Keep ${field?.label || name}" onChange=${turn} />
    <span>${field?.label || name}</span>
    <span class="num dim">${written(field, before)} → ${written(field, now)}</span>
    <span class="num">${gains > 0 ? '−' : '+'}${fixed(Math.abs(gains), 2)}</span>
  </label>`;
}
