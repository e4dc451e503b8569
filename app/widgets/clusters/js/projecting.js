// The form that projects new images (a folder on this machine, or a study) onto a map, and lists those to remove.
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { action, closing, fill, finder, offer, onEnter, options } from '../../../static/dom.js';
import { underWay } from '../../../static/plan.js';
import { dom } from '../../../static/view.js';

/** @typedef {import('./projected.js').ProjectedSet} ProjectedSet */
/** @typedef {Answers.Projections['sets'][number]} Row */

export class Projecting {
  /** @param {HTMLDetailsElement} root @param {import('./cluster_view.js').ClusterView} clusters */
  constructor(root, clusters) {
    this.root = root;
    this.$ = finder(root);
    this.clusters = clusters;
    /** @type {string | null} the set that was requested here and is not ready yet */
    this.wanted = null;
    /** @type {string | null} */
    this.watched = null; // the map for which images are being placed
    this.$('.put').onclick = () => orToast(this.go());
    root.addEventListener('toggle', () => {
      if (root.open) this.studies().catch(() => {});
    });
    closing(root);
    onEnter(this.$('.place-folder'), () => orToast(this.go()));
  }

  get pane() {
    return this.clusters.active.map ? this.clusters.active : this.clusters.panes[0];
  }

  async studies() {
    const { studies } = await api('/api/status');
    const title = (/** @type {string} */ s) => (s === this.clusters.study ? `${s}, images not on the map` : s);
    const named = studies.map((s) => /** @type {const} */ ([s, title(s)]));
    offer(this.$('.place-study'), options([['', 'none'], ...named]));
  }

  render() {
    const { map } = this.pane;
    this.root.hidden = !map;
    if (this.root.hidden) return;
    const line = (/** @type {ProjectedSet} */ set) => {
      const look = { class: 'small', 'aria-label': `Remove ${set.title} from the map` };
      return dom`<div class="line">
        <span class="name" title=${this.summary(set)}>${set.title}, ${set.names.length.toLocaleString('en')}</span>
        ${action('\u00d7', () => orToast(this.off(set)), look)}
      </div>`;
    };
    fill(this.$('.sets'), map.sets.map(line));
    if (map.waiting.some((s) => underWay(s.job_status))) this.watched = map.key;
    else if (!this.wanted) this.say(undefined);
  }
  /** @param {ProjectedSet} set */
  summary(set) {
    const far = set.far[set.far.length - 1].filter(Boolean).length;
    const lost = set.left_out.length ? ` ${set.left_out.length} files could not be read.` : '';
    return `${set.names.length} images; ${far} far from every image of the map.${lost}`;
  }

  async go() {
    const { map } = this.pane;
    const folder = this.$('.place-folder').value.trim();
    const study = this.$('.place-study').value;
    if (!map) return;
    if (!folder && !study) throw new Error('Enter the path of a folder, or choose a study.');
    const { key, ready } = await api(`${map.base}/placed`, folder ? { folder } : { study });
    this.wanted = key;
    if (ready) await this.finished(map.key);
    else this.watched = map.key;
  }

  /** @param {Row | undefined} row the set in progress */
  say(row) {
    const working = this.$('.on-way');
    working.hidden = !row;
    this.$('.put').disabled = Boolean(row);
    if (!row) return;
    const bar = working.querySelector('progress');
    if (row.job_status === 'running') bar.value = row.progress;
    else bar.removeAttribute('value');
    working.querySelector('.said').textContent =
      row.job_status === 'running' ? row.message : 'Waiting for the running job';
  }

  /** Checks the map on which images are being placed again. */
  async follow() {
    const key = this.watched;
    if (!key) return;
    const { sets } = await api(`/api/clusters/maps/${key}/placed`);
    if (key !== this.watched) return;
    const row = sets.find((s) => !s.ready && underWay(s.job_status));
    this.say(row);
    if (row) return;
    this.watched = null;
    const failed = sets.find((s) => s.key === this.wanted && !s.ready);
    if (failed) toast(failed.message || 'The images could not be placed.', 'bad');
    await this.finished(key);
  }
  // Every pane with this map reloads it; camera, epoch and selection stay.
  /** @param {string} key of the map */
  async finished(key) {
    this.wanted = null;
    for (const pane of this.clusters.shown) if (pane.map.key === key) await this.clusters.again(pane);
    this.render();
  }
  /** @param {ProjectedSet} set */
  async off(set) {
    const { map } = this.pane;
    await api(`${map.base}/placed/${set.key}`, undefined, { method: 'DELETE' });
    await this.finished(map.key);
  }
}
