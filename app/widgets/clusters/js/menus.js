// Two menus: named views of the maps, and exports as files.
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { action, closing, el, fill, finder, finderOfAll, onEnter } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';

export class Menus {
  /** @param {HTMLElement} root @param {import('../clusters.js').ClusterView} clusters */
  constructor(root, clusters) {
    this.root = root;
    this.clusters = clusters;
    /** @type {Answers.SavedView[]} */
    this.views = [];
    this.$ = finder(root);
    this.all = finderOfAll(root);
    this.menu(this.$('.menu.views'), () => this.viewItems());
    this.menu(this.$('.menu.out'), () => this.files());
  }

  /** A menu whose entries are made when it opens. @param {HTMLDetailsElement} menu @param {() => HTMLElement[]} entries */
  menu(menu, entries) {
    menu.addEventListener('toggle', () => {
      if (menu.open) fill(finder(menu)('.sheet'), entries());
    });
    closing(menu);
  }
  close() {
    for (const menu of this.all('.menu')) menu.open = false;
  }

  // Files ------------------------------------------------------------------------------------------
  files() {
    const { pane } = this.clusters;
    if (!pane.map) return [el('p', { class: 'dim' }, 'There is no map yet.')];
    const query = new URLSearchParams();
    if (pane.fit) query.set('fit', pane.fit);
    if (pane.column.codes) query.set('colour', pane.column.name);
    const off = this.clusters.hidden.get('class');
    if (pane.column.name === 'class' && off?.size) query.set('hide', [...off].join('|'));
    const close = () => setTimeout(() => this.close(), 0);
    const link = (/** @type {string} */ format, /** @type {string} */ text, more = {}) => {
      const asked = new URLSearchParams({ ...Object.fromEntries(query), ...more });
      return dom`<a href="${pane.map.base}/file.${format}?${asked}" download="" onclick=${close}>${text}</a>`;
    };
    const figures = (more = {}) => [link('svg', 'SVG', more), link('pdf', 'PDF', more), link('png', 'PNG', more)];
    const several = pane.map.epochs > 1;
    return dom`<h3>${several ? `Figure, epoch ${pane.epoch}` : 'Figure'}</h3>
      ${figures({ epoch: pane.epoch })}
      ${several && [el('h3', {}, 'Figure, all epochs'), figures()]}
      <h3>Table of all points</h3>
      ${link('csv', 'CSV')}${link('parquet', 'Parquet')}`;
  }

  // Views ------------------------------------------------------------------------------------------
  viewItems() {
    const name = dom`
      <input type="text" placeholder="name of this view" maxlength="60" aria-label="Name of this view" />`;
    const done = async () => {
      await this.clusters.listMaps();
      this.close();
    };
    const change = (/** @type {Promise<unknown>} */ work) => orToast(work.then(done));
    const save = () => {
      const body = { study: this.clusters.study, name: name.value, state: this.state() };
      const confirmed = () => toast(`View \u201c${name.value.trim()}\u201d saved.`, 'good');
      if (name.value.trim()) change(api('/api/clusters/views', body).then(confirmed));
    };
    onEnter(name, save);
    const remove = (/** @type {number} */ id) =>
      change(api(`/api/clusters/views/${id}`, undefined, { method: 'DELETE' }));
    const line = (/** @type {Answers.SavedView} */ { id, name, state }) => dom`<div class="line">
      ${action(name, () => orToast(this.restore(/** @type {any} */ (state))), { class: 'item' })}
      ${action('\u00d7', () => remove(id), { class: 'small', 'aria-label': `Delete view ${name}` })}
    </div>`;
    return dom`${this.views.length ? this.views.map(line) : el('p', { class: 'dim' }, 'No saved views yet.')}
      <div class="line">${name}${action('Save', save)}</div>`;
  }
  // Everything needed to restore a view: maps, epochs, cameras, colours, the selection by identity.
  state() {
    const { clusters } = this;
    return {
      panes: clusters.shown.map((p) => ({ key: p.map.key, time: p.plot.time, camera: { ...p.plot.camera } })),
      colour: clusters.colour,
      fit: clusters.fit,
      hidden: [...clusters.hidden].map(([column, names]) => [column, [...names]]),
      selected: clusters.pointsOf(clusters.panes[0]).map((i) => clusters.panes[0].map.ids[i]),
    };
  }
  /** @param {ReturnType<Menus['state']>} state */
  async restore(state) {
    const { clusters } = this;
    this.close();
    const known = new Set(clusters.maps.filter((m) => m.ready).map((m) => m.key));
    if (!state.panes.every((p) => known.has(p.key))) throw new Error('A map of this view was deleted. Draw it again.');
    Object.assign(clusters, {
      colour: state.colour,
      fit: state.fit,
      hidden: new Map(state.hidden.map(([c, n]) => [c, new Set(n)])),
    });
    clusters.recolour();
    await clusters.setSplit(state.panes.length > 1);
    for (const [i, { key, time, camera }] of state.panes.entries()) {
      await clusters.show(clusters.panes[i], key);
      clusters.panes[i].seek(time);
      Object.assign(clusters.panes[i].plot.camera, camera);
      clusters.panes[i].plot.redraw();
    }
    [clusters.active] = clusters.panes;
    clusters.select(clusters.active, clusters.active.map.findAll(state.selected));
  }
}
