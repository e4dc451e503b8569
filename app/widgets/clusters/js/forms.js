// The forms that start jobs on maps: one draws a new map, the other places new images (a folder on this machine, or a
// study) on a map and lists those to remove.
import { effect } from '@preact/signals';
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { action, fill, finder, finderOfAll, offer, onEnter, options } from '../../../static/dom.js';
import { underWay } from '../../../static/plan.js';
import { dom } from '../../../static/view.js';

/** @typedef {import('./model.js').ProjectedSet} ProjectedSet */

const LIMITS = ['seed', 'perplexity', 'neighbours', 'min_dist'];

/** Shows the progress of a job, or hides it. @param {HTMLElement} place @param {Pick<Answers.MapRow, 'job_status' |
 * 'progress' | 'message'> | undefined} row @param {string} [waits] said while the job has not started */
function showProgress(place, row, waits = '') {
  place.hidden = !row;
  if (!row) return;
  const $ = finder(place);
  const runs = row.job_status === 'running';
  if (runs) $('progress').value = row.progress;
  else $('progress').removeAttribute('value');
  $('.said').textContent = runs ? row.message : waits;
}

export class MapForm {
  /** @param {HTMLElement} root @param {(key: string, ready: boolean) => Promise<void>} asked called when a map was requested */
  constructor(root, asked) {
    this.root = root;
    this.asked = asked;
    this.$ = finder(root);
    /** @type {Answers.EncoderRun[]} */
    this.runs = [];
    this.bare = false;
    this.$('.method').onchange = () => this.settle();
    this.$('.run').onchange = () => this.settle();
    this.$('.go').onclick = () => this.go();
    this.settle();
  }

  /** @param {string} study */
  async load(study) {
    const { runs } = await api(`/api/clusters/runs?study=${encodeURIComponent(study)}`);
    this.runs = runs;
    const title = (/** @type {Answers.EncoderRun} */ { name, status }) =>
      status === 'done' ? name : `${name}, ${status}`;
    offer(this.$('.run'), options(runs.map((r) => [r.id, title(r)])));
    this.$('.go').disabled = !runs.length;
    this.settle();
  }

  get run() {
    return this.runs.find((r) => r.id === this.$('.run').value);
  }

  settle() {
    const method = this.$('.method').value;
    for (const node of finderOfAll(this.root)('.only')) node.hidden = !node.classList.contains(method);
    const { run } = this;
    this.$('.run').title = run?.name || ''; // a long name is cut off in the box
    this.#features(run?.centred !== false);
    const epochs = run?.epochs || [];
    const [first, last] = [epochs[0], epochs.at(-1)];
    /** @type {[string | number, string][]} */
    const ways = [
      ['last', last === undefined ? 'last' : `last, ${last}`],
      ['ends', `${first} and ${last}`],
      ['all', `all ${epochs.length}`],
    ];
    const several = epochs.length > 1 ? ways : ways.slice(0, 1);
    offer(this.$('.epochs'), options(several), options(epochs.map((e) => [e, `epoch ${e}`])));
  }

  /** Pretrained weights have no class centres and an untrained head. @param {boolean} trained */
  #features(trained) {
    const select = this.$('.feature');
    for (const option of select.options) option.disabled = !trained && ['centred', 'projected'].includes(option.value);
    if (select.selectedOptions[0]?.disabled) select.value = 'backbone';
    if (trained && this.bare) select.value = 'centred';
    this.bare = !trained;
  }

  config() {
    const epochs = this.run?.epochs || [];
    const chosen = this.$('.epochs').value;
    /** @type {Record<string, number[]>} */
    const of = { last: [epochs[epochs.length - 1]], ends: [epochs[0], epochs[epochs.length - 1]], all: epochs };
    /** @type {Values} */
    const config = {
      method: this.$('.method').value,
      feature: this.$('.feature').value,
      epochs: of[chosen] || [+chosen],
    };
    for (const name of LIMITS) config[name] = +this.$(`.${name}`).value;
    const [normal, abnormal, mixed] = ['normal', 'abnormal', 'mixed'].map((kind) => +this.$(`.p-${kind}`).value);
    config.points = { train: normal, holdout: normal, test_normal: normal, abnormal, mixed };
    return config;
  }

  async go() {
    if (!this.run) return;
    this.$('.go').disabled = true;
    const map = await orToast(api('/api/clusters/maps', { run: this.run.id, config: this.config() }));
    if (map) await this.asked(map.key, map.ready);
    else this.$('.go').disabled = false;
  }

  /** @param {Answers.MapRow} [map] the one that is being drawn */
  progress(map) {
    const ready = this.runs.find((r) => r.id === map?.run)?.status === 'done';
    showProgress(this.$('.working'), map, ready ? 'Waiting in the queue' : 'Waiting for the encoder');
    this.$('.go').disabled = Boolean(map) || !this.runs.length;
    this.$('.stop-map').onclick = () => map && orToast(api(`/api/clusters/maps/${map.key}/stop`, {}));
  }
}

export class Projecting {
  /** @param {HTMLDetailsElement} root @param {import('../clusters.js').ClusterView} clusters */
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
    onEnter(this.$('.place-folder'), () => orToast(this.go()));
    effect(() => this.render());
  }

  async studies() {
    const { studies } = await api('/api/status');
    const title = (/** @type {string} */ s) => (s === this.clusters.study ? `${s}, images not on the map` : s);
    const named = studies.map((s) => /** @type {const} */ ([s, title(s)]));
    offer(this.$('.place-study'), options([['', 'none'], ...named]));
  }

  render() {
    this.clusters.changed.value;
    const { map } = this.clusters.pane;
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
    else if (!this.wanted) this.say();
  }
  /** @param {ProjectedSet} set */
  summary(set) {
    const far = set.far[set.far.length - 1].filter(Boolean).length;
    const lost = set.left_out.length ? ` ${set.left_out.length} files could not be read.` : '';
    return `${set.names.length} images; ${far} far from every image of the map.${lost}`;
  }

  async go() {
    const { map } = this.clusters.pane;
    const folder = this.$('.place-folder').value.trim();
    const study = this.$('.place-study').value;
    if (!map) return;
    if (!folder && !study) throw new Error('Enter the path of a folder, or choose a study.');
    const { key, ready } = await api(`${map.base}/placed`, folder ? { folder } : { study });
    this.wanted = key;
    if (ready) await this.finished(map.key);
    else this.watched = map.key;
  }

  /** @param {Answers.Projections['sets'][number]} [row] the set in progress */
  say(row) {
    showProgress(this.$('.on-way'), row, 'Waiting for the running job');
    this.$('.put').disabled = Boolean(row);
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
    for (const pane of this.clusters.shown) if (pane.map.key === key) await this.clusters.show(pane, key);
  }
  /** @param {ProjectedSet} set */
  async off(set) {
    const { map } = this.clusters.pane;
    await api(`${map.base}/placed/${set.key}`, undefined, { method: 'DELETE' });
    await this.finished(map.key);
  }
}
