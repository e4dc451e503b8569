// The form for a map: encoder, method, features, epochs. A job does the fit; the form requests it and shows progress.
import { api } from '../../../static/api.js';
import { orToast } from '../../../static/dialogs.js';
import { finder, finderOfAll, offer, options } from '../../../static/dom.js';

const LIMITS = ['seed', 'perplexity', 'neighbours', 'min_dist'];

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

  /** @param {Answers.MapRow | null | undefined} state the row of a map that is not finished */
  progress(state) {
    this.$('.working').hidden = !state;
    this.$('.go').disabled = Boolean(state) || !this.runs.length;
    if (!state) return;
    const bar = this.$('.working progress');
    if (state.job_status === 'running') bar.value = state.progress;
    else bar.removeAttribute('value');
    const ready = this.runs.find((r) => r.id === state.run)?.status === 'done';
    const waits = ready ? 'Waiting in the queue' : 'Waiting for the encoder';
    this.$('.working .said').textContent = state.job_status === 'running' ? state.message : waits;
    this.$('.stop-map').onclick = () => orToast(api(`/api/clusters/maps/${state.key}/stop`, {}));
  }
}
