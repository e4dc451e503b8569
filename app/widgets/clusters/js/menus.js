// What stands above the maps: the tools, and the menus to place images, for named views and for exports as files.
import { useEffect, useRef } from 'preact/hooks';
import { api } from '../../../static/api.js';
import { orToast, submitted, toast } from '../../../static/dialogs.js';
import { closing } from '../../../static/dom.js';
import { study } from '../../../static/store.js';
import { button, html } from '../../../static/view.js';
import { Place } from './forms.js';
import * as state from './state.js';

const TOOLS = [
  ['pan', 'Move', 'Drag to move the map, scroll to zoom (1)'],
  ['box', 'Box', 'Drag a box around visible points (2)'],
  ['lasso', 'Lasso', 'Draw around visible points (3, or hold Shift)'],
];
const CENTRES = 'Class means (+), radii (rings) and the frozen centres (diamonds)';
const TWO = 'A second map next to this one, with the same selection';

export function Bar() {
  const choose = (/** @type {string[]} */ [name, words, title]) => {
    const use = () => {
      state.tool.value = name;
    };
    return button(words, use, { title, 'data-tool': name, 'aria-pressed': name === state.tool.value });
  };
  const mark = () => {
    state.marks.value = !state.marks.value;
  };
  const isolate = () => {
    state.only.value = state.selection.value.ids;
  };
  const some = state.selection.value.ids.size > 0;
  return html`<div class="group tools">${TOOLS.map(choose)}</div>
    ${button('Fit', () => state.shown.value.forEach((p) => p.plot.fit()), { title: 'Show the whole map (0)' })}
    ${button('Centres', mark, { title: CENTRES, 'aria-pressed': state.marks.value })}
    ${button('Two maps', () => state.split(!state.isSplit.value), { title: TWO, 'aria-pressed': state.isSplit.value })}
    <span class="spring" />
    ${button('Isolate', isolate, { title: 'Show only the selection', disabled: !some })}
    ${button('Clear', state.clear, { title: 'Clear the selection (Escape)', disabled: !some && !state.only.value })}
    <${Menu} name="place" title="Place" help="Place new images on this map without changing it" Contents=${Place} />
    <${Menu} name="views" title="Views" Contents=${Views} />
    <${Menu} name="out" title="Save" Contents=${Files} />`;
}

/** @param {{name: string, title: string, help?: string, Contents: any}} props */
function Menu({ name, title, help, Contents }) {
  const menu = useRef(/** @type {any} */ (null));
  useEffect(() => closing(menu.current), []);
  return html`<details ref=${menu} class="menu ${name}">
    <summary title=${help}>${title}</summary>
    <div class="sheet"><${Contents} /></div>
  </details>`;
}

/** @param {Element | null} element in the menu */
function close(element) {
  const menu = element?.closest('details');
  if (menu) menu.open = false;
}

/** The map as a figure or a table. */
function Files() {
  const pane = state.current.value;
  if (!pane.map) return null;
  /** @type {Record<string, string>} */
  const query = pane.fit ? { fit: pane.fit } : {};
  if (pane.column.codes) query.colour = pane.column.name;
  const off = state.hidden.value.class;
  if (pane.column.name === 'class' && off?.length) query.hide = off.join('|');
  const link = (/** @type {string} */ format, /** @type {string} */ text, more = {}) => {
    const asked = new URLSearchParams({ ...query, ...more });
    const done = (/** @type {any} */ event) => setTimeout(close, 0, event.currentTarget);
    return html`<a href=".${pane.map.base}/file.${format}?${asked}" download="" onClick=${done}>${text}</a>`;
  };
  const figures = (more = {}) => [link('svg', 'SVG', more), link('pdf', 'PDF', more), link('png', 'PNG', more)];
  const several = pane.map.epochs > 1;
  return html`<h3>${several ? `Figure, epoch ${pane.epoch}` : 'Figure'}</h3>
    ${figures({ epoch: String(pane.epoch) })}
    ${several && [html`<h3>Figure, all epochs</h3>`, figures()]}
    <h3>Table of all points</h3>
    ${link('csv', 'CSV')}${link('parquet', 'Parquet')}`;
}

/** The saved views, and a form to save another. */
function Views() {
  const { views } = state.listed.value;
  const save = submitted(async (given, form) => {
    const name = String(given.get('name')).trim();
    await api('/api/clusters/views', { study: study.value, name, state: viewNow() });
    toast(`View \u201c${name}\u201d saved.`, 'good');
    form.reset();
    close(form);
    await state.list();
  });
  const remove = async (/** @type {number} */ id) => {
    await api(`/api/clusters/views/${id}`, undefined, { method: 'DELETE' });
    await state.list();
  };
  const use = (/** @type {any} */ view) => (/** @type {any} */ event) => {
    close(event.currentTarget);
    orToast(restore(view.state));
  };
  const line = (/** @type {Answers.SavedView} */ view) => html`<div class="line">
    ${button(view.name, use(view), { class: 'item' })}
    ${button('\u00d7', () => orToast(remove(view.id)), { class: 'small', 'aria-label': `Delete view ${view.name}` })}
  </div>`;
  return html`${views.length ? views.map(line) : html`<p class="dim">No saved views yet.</p>`}
    <form class="line" onSubmit=${save}>
      <input type="text" name="name" placeholder="name of this view" maxlength="60" pattern=".*\\S.*" required
        aria-label="Name of this view" />
      <button>Save</button>
    </form>`;
}

/** Everything needed to restore a view: maps, epochs, cameras, colours, the selection by identity. */
const viewNow = () => ({
  panes: state.shown.value.map((p) => ({ key: p.map.key, time: p.time.value, camera: { ...p.plot.camera } })),
  colour: state.colour.value,
  fit: state.fit.value,
  hidden: Object.entries(state.hidden.value),
  selected: [...state.selection.value.ids],
});

/** @param {ReturnType<typeof viewNow>} view */
async function restore(view) {
  const there = new Set(state.ready.value.map((m) => m.key));
  if (!view.panes.every((p) => there.has(p.key))) throw new Error('A map of this view was deleted. Draw it again.');
  state.colour.value = view.colour;
  state.fit.value = view.fit;
  state.hidden.value = Object.fromEntries(view.hidden);
  await state.split(view.panes.length > 1);
  for (const [i, { key, time, camera }] of view.panes.entries()) {
    await state.open(state.panes[i], key);
    state.panes[i].seek(time);
    Object.assign(state.panes[i].plot.camera, camera);
    state.panes[i].plot.redraw();
  }
  state.selection.value = { ids: new Set(view.selected) };
}
