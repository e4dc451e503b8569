// One run: state and buttons, live curves, alarm in words, the batch it is at, what made it, its log.
import { Chart, COLOURS } from '/page/static/chart.js';
import { FitBoard } from './fit_board.js';
import { ask, lesionsLike, percent, pick } from './small.js';

export class RunView {
  constructor(root, studio, forms, { changed, clone }) {
    Object.assign(this, { root, studio, forms, changed, clone });
    const { el } = studio;
    this.$ = (selector) => root.querySelector(selector);
    this.charts = {
      losses: new Chart({ title: 'Losses' }),
      accuracy: new Chart({ title: 'Classes told apart', low: 0, high: 1 }),
      apart: new Chart({ title: 'Distances of classes', low: 0 }),
      spread: new Chart({ title: 'Spread of the features', low: 0 }),
    };
    const block = (title, name) => {
      const inside = el('div', { class: 'in' });
      this[name] = inside;
      return el('div', { class: `block ${name}` }, el('b', {}, title), inside);
    };
    this.$('.board').append(this.charts.losses.element, this.charts.accuracy.element, this.charts.apart.element, this.charts.spread.element,
      block('In this batch', 'strip'), block('Speed and confusion', 'figures'));
    this.fit = new FitBoard(studio);
    this.$('.board').after(this.fit.element);
    this.#wire();
  }

  open(id) {
    if (this.id !== id) {
      this.id = id;
      this.data = null;
      this.series = {};
      this.last = -1;
      this.stride = 0;
      this.seen = [];
      this.stripStep = null;
      this.stripAfter = 0;
      this.strip.replaceChildren();
      this.figures.replaceChildren();
      for (const chart of Object.values(this.charts)) chart.put([]);
      this.fit.clear();
    }
    return this.look().catch((e) => this.studio.toast(e.message, 'bad'));
  }

  async look() {
    const id = this.id;
    if (!id || this.looking) return;
    this.looking = true;
    try {
      const data = await this.studio.api(`/api/training/run/${id}?after=${this.last}&stride=${this.stride}`);
      if (id !== this.id) return;
      if (data.reset) this.series = {};
      for (const [name, points] of Object.entries(data.series)) {
        const kept = (this.series[name] ||= []);
        for (const p of points) if (!kept.length || p[0] > kept.at(-1)[0]) kept.push(p);
      }
      const moved = data.last !== this.last || data.reset;
      this.last = data.last;
      this.stride = data.stride;
      const text = JSON.stringify({ ...data, series: null });
      if (moved || text !== this.shown) {
        this.shown = text;
        this.data = data;
        this.paint(moved);
      }
      this.root.dataset.step = String(this.last);
    } finally {
      this.looking = false;
    }
  }

  paint(moved) {
    const { $, studio, data } = this;
    const { run, job } = data;
    const { el } = studio;
    $('.run-name').textContent = run.name;
    const paused = job && job.here && job.status === 'paused';
    const asked = job && job.here && job.status === 'running' && job.wants !== 'run';
    const scoring = job && job.here && job.status === 'running' && run.status === 'done';
    const words = asked ? (job.wants === 'pause' ? 'pausing…' : 'cancelling…') : paused ? 'paused' : scoring ? job.verb : run.status === 'new' ? 'not started' : run.status;
    $('.who .state').className = `state ${paused ? 'paused' : scoring ? 'running' : run.status}`;
    $('.who .state').textContent = words;
    $('.where').textContent = [run.id, run.device, run.seconds ? studio.seconds(run.seconds) : ''].filter(Boolean).join(' · ');
    const going = job && job.here && ['running', 'queued', 'paused', 'interrupted', 'failed'].includes(job.status);
    const live = job && job.here;
    $('.pause').hidden = !(live && ['running', 'queued'].includes(job.status));
    $('.resume').hidden = !(live && ['paused', 'interrupted', 'failed', 'cancelled'].includes(job.status));
    $('.cancel').hidden = !(live && ['running', 'queued', 'paused', 'interrupted'].includes(job.status));
    $('.fit').hidden = !(run.kind === 'pretrain' && ['done', 'collapsed'].includes(run.status));
    $('.clone').hidden = run.kind !== 'pretrain';
    $('.archive').textContent = run.archived ? 'Restore' : 'Archive';
    $('.going').hidden = !going;
    if (going) {
      const share = Math.max(0, Math.min(1, job.progress * job.steps.length - job.position));
      $('.going progress').value = share;
      $('.told').textContent = [job.error && job.status === 'failed' ? job.error.split('\n').pop() : job.message, job.status === 'running' ? this.#left() : ''].filter(Boolean).join(' · ');
    }
    const message = data.alarm || (run.status === 'collapsed' ? run.summary.message : '') || (run.status === 'failed' && job && job.error ? job.error : '');
    $('.alarm').hidden = !message;
    $('.alarm').textContent = message || '';
    $('.said-note').hidden = !run.note;
    $('.said-note').textContent = run.note;
    const pretrain = run.kind === 'pretrain';
    $('.board').hidden = !pretrain;
    this.fit.element.hidden = pretrain;
    if (pretrain) {
      if (moved || !this.painted) this.#charts();
      this.painted = true;
      this.#facts();
      this.#strip();
    } else this.fit.paint(data, this.series);
    this.#made();
    const log = data.log.map((l) => `${l.at.slice(11, 19)}  ${l.line}`).join('\n');
    const pre = $('.log pre');
    if (pre.textContent !== log) {
      pre.textContent = log || 'Nothing was logged.';
      pre.scrollTop = pre.scrollHeight;
    }
  }

  // Time left, from how fast steps came while this page looked.
  #left() {
    const { steps } = this.data.plan;
    if (this.last < 0 || !steps || this.data.job.verb !== 'pretrain') return '';
    this.seen.push([performance.now(), this.last]);
    this.seen = this.seen.filter(([t]) => performance.now() - t < 60_000);
    const [t0, s0] = this.seen[0];
    const [t1, s1] = this.seen.at(-1);
    const epoch = this.series.epoch?.at(-1)?.[1];
    const where = epoch == null ? '' : `epoch ${epoch} of ${this.data.run.config.epochs}`;
    const ips = this.series.images_per_second?.at(-1)?.[1];
    if (s1 <= s0 || t1 - t0 < 2000) return where;
    return `${where} · about ${this.studio.seconds(((steps - s1) * (t1 - t0)) / (s1 - s0) / 1000)} left${ips ? ` · ${Math.round(ips)} views/s` : ''}`;
  }

  #charts() {
    const s = this.series;
    const line = (name, key, i, more = {}) => ({ name, points: s[key] || [], colour: COLOURS[i], ...more });
    const k = (this.data.run.config.k ?? 3) + 1;
    this.charts.losses.put([line('total', 'loss', 5, { thick: true }), line('l_ctr', 'l_ctr', 0), line('l_PMSACL', 'l_con', 1), line('l_aug', 'l_aug', 2), line('l_pos', 'l_pos', 3), line('held out', 'val_loss', 4, { dash: true })]);
    this.charts.accuracy.options.lines = [{ at: 1 / k, label: 'guessing' }];
    this.charts.accuracy.put([line('training', 'aug_accuracy', 0), line('held out', 'val_accuracy', 1, { thick: true })]);
    this.charts.apart.put([line('between', 'class_distance', 5, { thick: true }), ...Array.from({ length: k }, (_, n) => line(`to c${n}`, `centre_distance_${n}`, n))]);
    this.charts.spread.put([line('spread', 'spread', 0, { thick: true })]);
    const start = (s.spread || []).slice(0, 5).map((p) => p[1]).filter((v) => v != null).sort((a, b) => a - b);
    this.charts.spread.options.lines = start.length ? [{ at: start[Math.floor(start.length / 2)] * 0.1, label: 'collapse' }] : [];
    this.charts.spread.draw();
  }

  #facts() {
    const { el, seconds, bytes } = this.studio;
    const s = this.series;
    const lastOf = (name) => s[name]?.at(-1)?.[1];
    const pairs = [];
    const add = (name, value) => { if (value != null && value !== '') pairs.push(el('span', { class: 'dim' }, name), el('span', {}, value)); };
    const speed = lastOf('images_per_second');
    add('learning rate', lastOf('lr') == null ? null : Number(lastOf('lr').toPrecision(3)).toString());
    add('views a second', speed == null ? null : speed.toFixed(speed < 10 ? 1 : 0));
    add('memory', lastOf('memory') == null ? null : bytes(lastOf('memory')));
    add('step', this.last < 0 ? null : `${this.last}${this.data.plan.steps ? ` of ${this.data.plan.steps}` : ''}`);
    add('held-out AUROC', lastOf('val_auroc') == null ? null : lastOf('val_auroc').toFixed(3));
    const e = this.data.evaluation;
    if (e) {
      for (const [key, name] of [['auroc', 'AUROC'], ['ap', 'AP'], ['sensitivity', 'sensitivity'], ['specificity', 'specificity'], ['pixel_auroc', 'pixel AUROC'], ['dice', 'Dice'], ['pro', 'PRO']]) add(name, e[key] == null ? null : e[key].toFixed(3));
    }
    for (const c of this.data.children) add(c.name, c.evaluation ? `AUROC ${c.evaluation.auroc?.toFixed(3) ?? '–'}` : c.status);
    const parts = [el('div', { class: 'speed' }, pairs)];
    if (this.data.confusion) {
      const { rows } = this.data.confusion;
      const grid = el('div', { class: 'matrix', style: `grid-template-columns: repeat(${rows.length + 1}, auto)`, title: `Step ${this.data.confusion.step}: rows are the true class, columns what was said` });
      grid.append(el('span'), ...rows.map((_, n) => el('span', { class: 'dim' }, `A${n}`)));
      rows.forEach((row, n) => {
        const sum = row.reduce((a, b) => a + b, 0) || 1;
        grid.append(el('span', { class: 'dim' }, `A${n}`), ...row.map((v) => el('span', { style: `background:rgba(124,196,212,${(0.7 * v) / sum})` }, String(v))));
      });
      parts.push(grid);
    }
    this.figures.replaceChildren(...parts);
  }

  // The samples of a step follow from the run's seed; they are made again, seldom enough not to slow the training.
  #strip() {
    const step = Math.max(0, this.last);
    if (!this.data.run.config.epochs || this.stripStep === step || performance.now() < this.stripAfter) return;
    if (this.last < 0 && this.data.run.status !== 'running') return;
    const from = performance.now();
    this.stripStep = step;
    this.stripAfter = Infinity;
    const id = this.id;
    const picture = new Image();
    picture.alt = `Weak views of each class in the batch of step ${step}`;
    picture.onload = () => {
      const took = performance.now() - from;
      this.stripAfter = performance.now() + Math.max(4000, 15 * took);
      if (id === this.id) this.strip.replaceChildren(picture);
    };
    picture.onerror = () => { this.stripAfter = performance.now() + 10_000; };
    picture.src = `/api/training/run/${id}/batch.png?step=${step}`;
  }

  #made() {
    const { el } = this.studio;
    const { run, data } = this.data;
    const text = JSON.stringify([run.config, run.code, run.status]);
    if (text === this.madeText) return;
    this.madeText = text;
    const pairs = [];
    const add = (name, value) => pairs.push(el('span', { class: 'dim' }, name), el('span', {}, value == null || value === '' ? '–' : String(value)));
    add('seed', run.config.seed);
    add('code', run.code);
    add('device', run.device);
    add('data', data ? `${data.name}, fingerprint ${(data.fingerprint || '').slice(0, 16)}` : '');
    add('created', run.created.replace('T', ' ').slice(0, 19));
    add('packages', Object.entries(run.packages || {}).map(([n, v]) => `${n} ${v}`).join(', '));
    const flat = (o, before = '') => Object.entries(o).flatMap(([k, v]) => (v && typeof v === 'object' && !Array.isArray(v) ? flat(v, `${before}${k}.`) : [[before + k, Array.isArray(v) ? v.join(', ') : v]]));
    for (const [key, value] of flat(run.config)) add(key, value);
    this.$('.made .facts').replaceChildren(...pairs);
  }

  #wire() {
    const { $, studio } = this;
    const act = async (action, value = '') => {
      try {
        return await studio.api(`/api/training/run/${this.id}/${action}`, { value });
      } catch (error) {
        studio.toast(error.message, 'bad');
        return null;
      } finally {
        await this.look().catch(() => {});
      }
    };
    $('.pause').onclick = () => act('pause').then(() => this.changed());
    $('.resume').onclick = () => act('resume').then(() => this.changed());
    $('.cancel').onclick = async () => {
      if (await studio.confirm('Cancel this run? What it has learnt so far stays, and Resume can go on.', 'Cancel the run', 'Let it go on')) {
        await act('cancel');
        this.changed();
      }
    };
    const rename = async () => {
      const name = await ask('Name of the run', this.data.run.name);
      if (name) { await act('rename', name); this.changed(); }
    };
    $('.run-name').onclick = rename;
    $('.run-name').onkeydown = (e) => { if (e.key === 'Enter') rename(); };
    $('.note').onclick = async () => {
      const note = await ask('Note', this.data.run.note, { long: true });
      if (note !== null) { await act('note', note); this.changed(); }
    };
    $('.archive').onclick = async () => {
      await act(this.data.run.archived ? 'restore' : 'archive');
      this.changed(this.$('.archived').checked ? undefined : null);
    };
    $('.delete').onclick = async () => {
      const frees = await act('frees');
      if (!frees) return;
      const fits = this.data.children.length;
      const text = `Delete “${this.data.run.name}”${fits ? ` and the ${fits} ${fits > 1 ? 'fits' : 'fit'} on it` : ''}, with metrics and readings? This frees ${studio.bytes(frees.bytes)} and cannot be undone.`;
      if (!(await studio.confirm(text, 'Delete'))) return;
      const done = await act('delete');
      if (done) { studio.toast(`${studio.bytes(done.bytes)} freed.`, 'good'); this.id = null; this.changed(null); }
    };
    $('.repeat').onclick = async () => {
      const made = await act('repeat');
      if (made) this.changed(made.run);
    };
    $('.clone').onclick = () => this.clone(this.data.run);
    $('.fit').onclick = async () => {
      const titles = Object.fromEntries(Object.entries(this.forms.detectors).map(([n, d]) => [n, d.title]));
      const like = lesionsLike(this.forms);
      const names = await pick('Fit on this encoder, then score the study and evaluate:', titles, [Object.keys(titles)[0]], 'Queue', studio.el('label', {}, 'Lesions as in', like));
      if (!names || !names.length) return;
      try {
        await studio.api(`/api/training/run/${this.id}/fit`, { detectors: Object.fromEntries(names.map((n) => [n, this.forms.detectors[n].lesions[like.value] || {}])) });
        this.changed();
      } catch (error) {
        studio.toast(error.message, 'bad');
      }
    };
  }
}
