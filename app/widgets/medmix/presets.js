// Presets: the list and its versions, saving by name, YAML export and import; and the settings that those on screen are
// compared with.
import { computed, signal } from '@preact/signals';
import { api, fetched } from '../../static/api.js';
import { ask, confirm, toast } from '../../static/dialogs.js';
import { download } from '../../static/dom.js';
import { button, choices, given, html } from '../../static/view.js';
import { fetchGrid } from './grid.js';
import { patchOf } from './outline.js';
import { put, scene, settings, weakConfig } from './scene.js';

const SIDE = 256; // pixels of a preset's picture

/** @param {{name: string, version: number}} preset */
export const label = ({ name, version }) => `${name}${version ? ` · v${version}` : ''}`;

/** Returns whether two settings are equal, in any order. @param {Values} a @param {Values} b */
export const same = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());

export const presets = signal(/** @type {Answers.Preset[]} */ ([]));
/** The presets of the augmentation on screen. */
const fitting = computed(() => presets.value.filter((p) => p.strong === settings.value.strong));
/** The preset on screen, unless it was changed. */
export const chosen = computed(() => fitting.value.find((p) => same(p.config, settings.value.config)));
let lastName = 'my lesions';

export async function load() {
  ({ presets: presets.value } = await api('/api/medmix/presets'));
}

/** @param {string} [note] where the settings come from */
export async function save(note) {
  const name = (await ask('Name of the preset', lastName, { maxlength: 60 }))?.trim();
  if (!name) return;
  const { preset } = await api('/api/medmix/presets', { name, note, ...settings.value });
  lastName = name;
  await load();
  toast(`Saved as ${label(preset)}.`, 'good');
}

export async function remove() {
  const name = chosen.value?.name || '';
  if (!(await confirm(`Remove “${name}” from the list?`, 'Remove'))) return;
  await api(`/api/medmix/presets/${encodeURIComponent(name)}`, undefined, { method: 'DELETE' });
  await load();
}

export async function exported() {
  const { name, version } = chosen.value || { name: lastName, version: 0 };
  const answer = await fetched('/api/medmix/presets.yaml', { name, version, ...settings.value });
  download(await answer.blob(), `${name.replace(/\W+/g, '-')}.yaml`);
}

/** @param {File} file */
export async function imported(file) {
  const { preset } = await api('/api/medmix/presets/read', { text: await file.text() });
  lastName = preset.name;
  put(preset);
  toast(`“${preset.name}” loaded. Save it to keep it.`, 'good');
}

/** Says which preset is on screen. */
export function Chosen() {
  if (chosen.value) return label(chosen.value);
  return settings.value.config.matched?.length ? 'matched, not saved' : 'changed by hand';
}

/** The presets to choose from, with pictures. */
export function Cards() {
  const choose = (/** @type {Answers.Preset} */ preset, /** @type {HTMLElement} */ card) => {
    card.closest('details')?.removeAttribute('open');
    put(preset);
  };
  const words = (/** @type {Answers.Preset} */ p) => html`<canvas width=${SIDE} height=${SIDE} />
    <span><b>${label(p)}</b><small class="dim">${p.note || 'Saved preset'}</small></span>`;
  return fitting.value.map((p) =>
    button(words(p), ({ currentTarget }) => choose(p, currentTarget), {
      class: 'item',
      'data-name': label(p),
      key: label(p),
    }),
  );
}

/** Draws the largest lesion of each preset on an image of the scene, when the list is opened.
 * @param {HTMLDetailsElement} list */
export async function picture(list) {
  for (const p of fitting.value) {
    /** @type {HTMLCanvasElement | null} */
    const canvas = list.querySelector(`[data-name="${CSS.escape(label(p))}"] canvas`);
    if (!list.open || !canvas) return;
    const asked = { ...scene.value, config: p.config, size: SIDE, samples: 1, weak: false };
    const drawn = JSON.stringify(asked);
    if (canvas.dataset.scene === drawn) continue;
    const { mosaic, outlines } = await fetchGrid(asked);
    const lesions = outlines.flatMap((row, n) => row[0].map((line) => ({ n, ...patchOf(line, SIDE, SIDE, 1.8) })));
    const whole = { n: 0, x: 0, y: 0, side: SIDE };
    const { n, x, y, side } = lesions.reduce((a, b) => (b.side > a.side ? b : a), lesions[0] || whole);
    canvas.getContext('2d')?.drawImage(mosaic, x, n * SIDE + y, side, side, 0, 0, SIDE, SIDE);
    canvas.dataset.scene = drawn;
  }
}

/** Settings that are compared with those on screen. */
export const beside = signal(
  /** @type {{strong: string, config: Values, weak_config: Values, title: string} | null} */ (null),
);

/** The choice of what to compare with. The compared settings stay when the presets or the augmentation change. */
export function Beside() {
  const names = fitting.value.map(label);
  const title = beside.value?.title || '';
  const choose = (/** @type {string} */ value) => {
    const { strong, config } = fitting.value.find((p) => label(p) === value) || settings.value;
    const kept = { strong, config, weak_config: weakConfig.value };
    beside.value = value ? { ...kept, title: value === 'now' ? 'copy' : value } : null;
  };
  return html`<select class="beside-choice" aria-label="Compare with" onChange=${given(choose)}
    value=${title && !names.includes(title) ? 'now' : title}>
    ${choices([['', 'nothing'], ['now', 'a copy of these settings'], ...names.map((name) => [name, name])])}
  </select>`;
}
