// The contents of two menus: named views of the maps, and exports as files.
import { useRef } from 'preact/hooks';
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { button, html } from '../../../static/view.js';

/** @typedef {import('../clusters.js').ClusterView} ClusterView */

/** @param {Element | null} element in the menu */
function close(element) {
  const menu = element?.closest('details');
  if (menu) menu.open = false;
}

/** The map as a figure or a table. @param {{clusters: ClusterView}} props */
export function Files({ clusters }) {
  clusters.changed.value;
  const { pane } = clusters;
  if (!pane.map) return null;
  /** @type {Record<string, string>} */
  const query = pane.fit ? { fit: pane.fit } : {};
  if (pane.column.codes) query.colour = pane.column.name;
  const off = clusters.hidden.get('class');
  if (pane.column.name === 'class' && off?.size) query.hide = [...off].join('|');
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

/** The saved views, and a form to save another. @param {{clusters: ClusterView}} props */
export function Views({ clusters }) {
  clusters.changed.value;
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  const change = async (/** @type {Promise<unknown>} */ work, said = '') => {
    if (!(await orToast(work))) return;
    if (said) toast(said, 'good');
    if (box.current) box.current.value = '';
    await clusters.listMaps();
    close(box.current);
  };
  const save = () => {
    const name = box.current?.value.trim();
    const body = { study: clusters.study, name, state: stateOf(clusters) };
    if (name) change(api('/api/clusters/views', body), `View \u201c${name}\u201d saved.`);
  };
  const remove = (/** @type {number} */ id) =>
    change(api(`/api/clusters/views/${id}`, undefined, { method: 'DELETE' }));
  const open = (/** @type {Answers.SavedView} */ { state }) => {
    close(box.current);
    orToast(restore(clusters, /** @type {any} */ (state)));
  };
  const line = (/** @type {Answers.SavedView} */ view) => html`<div class="line">
    ${button(view.name, () => open(view), { class: 'item' })}
    ${button('\u00d7', () => remove(view.id), { class: 'small', 'aria-label': `Delete view ${view.name}` })}
  </div>`;
  return html`${clusters.views.length ? clusters.views.map(line) : html`<p class="dim">No saved views yet.</p>`}
    <div class="line">
      <input ref=${box} type="text" placeholder="name of this view" maxlength="60" aria-label="Name of this view"
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && save()} />
      ${button('Save', save)}
    </div>`;
}

/** Everything needed to restore a view: maps, epochs, cameras, colours, the selection by identity.
 * @param {ClusterView} clusters */
const stateOf = ({ shown, panes, colour, fit, hidden, pointsOf }) => ({
  panes: shown.map((p) => ({ key: p.map.key, time: p.plot.time, camera: { ...p.plot.camera } })),
  colour,
  fit,
  hidden: [...hidden].map(([column, names]) => [column, [...names]]),
  selected: pointsOf(panes[0]).map((i) => panes[0].map.ids[i]),
});

/** @param {ClusterView} clusters @param {ReturnType<typeof stateOf>} state */
async function restore(clusters, state) {
  const ready = new Set(clusters.maps.filter((m) => m.ready).map((m) => m.key));
  if (!state.panes.every((p) => ready.has(p.key))) throw new Error('A map of this view was deleted. Draw it again.');
  const hidden = new Map(state.hidden.map(([column, names]) => [column, new Set(names)]));
  Object.assign(clusters, { colour: state.colour, fit: state.fit, hidden });
  clusters.recolour();
  await clusters.setSplit(state.panes.length > 1);
  for (const [i, { key, time, camera }] of state.panes.entries()) {
    await clusters.show(clusters.panes[i], key);
    clusters.panes[i].seek(time);
    Object.assign(clusters.panes[i].plot.camera, camera);
    clusters.panes[i].plot.redraw();
  }
  clusters.select(clusters.panes[0], clusters.panes[0].map.findAll(state.selected));
}
