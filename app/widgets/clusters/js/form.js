// What to draw: encoder, method, features, epochs. A fit runs as a job; this only asks, waits and shows how it goes.
const LIMITS = { seed: 'seed', perplexity: 'perplexity', neighbours: 'neighbours', min_dist: 'min_dist' };

export class Form {
  constructor(root, studio, on) {
    Object.assign(this, { root, studio, on, runs: [], busy: null });
    this.$ = (name) => root.querySelector(name);
    this.$('.method').onchange = () => this.settle();
    this.$('.run').onchange = () => this.settle();
    this.$('.go').onclick = () => this.go();
    this.settle();
  }

  async load(study) {
    const { runs } = await this.studio.api(`/api/clusters/runs?study=${encodeURIComponent(study)}`);
    this.runs = runs;
    const select = this.$('.run');
    const kept = select.value;
    select.replaceChildren(...runs.map((r) => this.studio.el('option', { value: r.id }, `${r.name}${r.status === 'done' ? '' : `, ${r.status}`}`)));
    if (runs.some((r) => r.id === kept)) select.value = kept;
    this.$('.go').disabled = !runs.length;
    this.settle();
  }

  get run() { return this.runs.find((r) => r.id === this.$('.run').value); }

  settle() {
    const method = this.$('.method').value;
    this.root.querySelectorAll('.only').forEach((node) => { node.hidden = !node.classList.contains(method); });
    const { run } = this;
    this.$('.run').title = run?.name || ''; // a long name is cut in the box
    const select = this.$('.epochs');
    const kept = select.value;
    const { el } = this.studio;
    const epochs = run?.epochs || [];
    select.replaceChildren(
      el('option', { value: 'last' }, epochs.length ? `last, ${epochs[epochs.length - 1]}` : 'last'),
      ...(epochs.length > 1 ? [el('option', { value: 'ends' }, `${epochs[0]} and ${epochs[epochs.length - 1]}`), el('option', { value: 'all' }, `all ${epochs.length}`)] : []),
      ...epochs.map((e) => el('option', { value: e }, `epoch ${e}`)),
    );
    if ([...select.options].some((o) => o.value === kept)) select.value = kept;
  }

  config() {
    const { epochs } = this.run;
    const chosen = this.$('.epochs').value;
    const config = {
      method: this.$('.method').value, feature: this.$('.feature').value,
      epochs: { last: [epochs[epochs.length - 1]], ends: [epochs[0], epochs[epochs.length - 1]], all: epochs }[chosen] || [+chosen],
    };
    for (const [name, key] of Object.entries(LIMITS)) config[key] = +this.$(`.${name}`).value;
    const normal = +this.$('.p-normal').value;
    config.points = { train: normal, holdout: normal, test_normal: normal, abnormal: +this.$('.p-abnormal').value, mixed: +this.$('.p-mixed').value };
    return config;
  }

  async go() {
    if (!this.run) return;
    this.$('.go').disabled = true;
    try {
      const { key, ready } = await this.studio.api('/api/clusters/maps', { run: this.run.id, config: this.config() });
      await this.on.asked(key, ready);
    } catch (error) {
      this.studio.toast(error.message, 'bad');
      this.$('.go').disabled = false;
    }
  }

  // state: a row of the list of maps that is not finished, or null when none is.
  progress(state) {
    this.$('.working').hidden = !state;
    this.$('.go').disabled = Boolean(state) || !this.runs.length;
    if (!state) return;
    const bar = this.$('.working progress');
    if (state.job_status === 'running') bar.value = state.progress;
    else bar.removeAttribute('value');
    this.$('.working .said').textContent = state.job_status === 'running' ? state.message : 'Waits for the job that is running';
  }
}
