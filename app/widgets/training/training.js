// The Training tab: the form of a new run, the list of runs, one run live, several compared.
import { newRun } from './new_run.js';
import { RunView } from './run_view.js';
import { ask, percent } from './small.js';
import { Chart, COLOURS } from '/page/static/chart.js';

export async function mount(root, studio) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  const tell = (promise) => promise.catch((e) => toast(e.message, 'bad'));
  let runs = [];
  let chosen = null;
  const ticked = new Set();

  const forms = await api('/api/training/forms');
  const maker = newRun(root, studio, forms, async (made) => { await refresh(); choose(made.run); });
  const view = new RunView(root, studio, forms, {
    changed: async (next) => { await refresh(); if (next !== undefined) choose(next); },
    clone: (run) => maker.fill(run),
  });

  // The list -----------------------------------------------------------------------------------
  const STATE = { new: 'not started', queued: 'queued', running: 'running', done: 'done', stopped: 'stopped', interrupted: 'interrupted', failed: 'failed', collapsed: 'collapsed' };
  function stateOf(run) {
    const job = run.job;
    if (job && job.here && job.status === 'paused') return ['paused', 'paused'];
    if (job && job.here && job.status === 'running' && run.status === 'done') return ['running', job.verb === 'score' ? 'scoring' : job.verb === 'evaluate' ? 'evaluating' : job.verb];
    return [run.status, STATE[run.status] || run.status];
  }
  function row(run) {
    const [kind, text] = stateOf(run);
    const e = run.evaluation || {};
    const busy = run.job && run.job.here && ['running', 'queued', 'paused', 'interrupted'].includes(run.job.status);
    const share = run.job ? run.job.progress * run.job.steps.length - run.job.position : 0;
    const tick = el('input', { type: 'checkbox', checked: ticked.has(run.id), 'aria-label': `Compare ${run.name}`, disabled: run.kind !== 'pretrain' });
    tick.onclick = (event) => event.stopPropagation();
    tick.onchange = () => {
      if (tick.checked && ticked.size === 6) { tick.checked = false; toast('Six runs at most are compared.'); return; }
      if (tick.checked) ticked.add(run.id); else ticked.delete(run.id);
      $('.compare').disabled = ticked.size < 2;
    };
    const figure = (v) => el('td', {}, v == null ? '–' : v.toFixed(3));
    const line = el('tr', { 'data-run': run.id, class: `${run.parent ? 'child' : ''} ${run.archived ? 'old' : ''} ${run.id === chosen ? 'chosen' : ''}`, tabindex: 0, title: run.note || null },
      el('td', {}, run.kind === 'pretrain' ? tick : ''), el('td', { class: 'name' }, run.parent ? `└ ${run.name}` : run.name), el('td', { class: 'dim' }, run.method),
      el('td', {}, el('span', { class: `state ${kind}` }, text)),
      el('td', {}, busy && run.job.status !== 'queued' ? el('progress', { max: 1, value: Math.max(0, Math.min(1, share)) }) : run.seconds ? studio.seconds(run.seconds) : '–'),
      el('td', {}, run.latest.l_aug == null ? '–' : run.latest.l_aug.toFixed(3)), el('td', {}, run.latest.val_accuracy == null ? '–' : percent(run.latest.val_accuracy)),
      figure(e.auroc), figure(e.pixel_auroc), figure(e.pro));
    line.onclick = () => choose(run.id);
    line.onkeydown = (event) => { if (event.key === 'Enter') choose(run.id); };
    return line;
  }
  function paintList() {
    const parents = runs.filter((r) => !r.parent || !runs.some((p) => p.id === r.parent));
    const ordered = parents.flatMap((p) => [p, ...runs.filter((r) => r.parent === p.id).reverse()]);
    const body = $('.runs tbody');
    const focus = document.activeElement?.closest?.('tr')?.dataset.run;
    body.replaceChildren(...ordered.map(row));
    if (focus) body.querySelector(`[data-run="${focus}"]`)?.focus();
    $('.runs').hidden = !runs.length;
    $('.nothing').hidden = Boolean(runs.length);
    if (!runs.length) { $('.detail').hidden = true; $('.versus').hidden = true; }
    paintHint();
  }
  let beside = null; // the job that goes on beside a training
  function paintHint() {
    const going = runs.filter((r) => r.status === 'running').length;
    const waiting = runs.filter((r) => r.status === 'queued').length;
    const text = [going && 'one at work', waiting && `${waiting} waiting`, beside && `beside: ${beside.message}`].filter(Boolean).join(', ');
    if ($('.runs .hint').textContent !== text) $('.runs .hint').textContent = text;
  }
  studio.on('status', (now) => { beside = now.beside; paintHint(); });
  // What is at work; else the newest training, whose curves say most; else anything.
  const shownFirst = (all) => all.find((r) => r.status === 'running') || all.find((r) => r.kind === 'pretrain' && r.method !== 'untrained') || all[0];
  let last = '';
  async function refresh() {
    const study = studio.study;
    if (!study) { runs = []; paintList(); return; }
    const found = (await api(`/api/training/runs?study=${encodeURIComponent(study)}&archived=${$('.archived').checked}`)).runs;
    if (study !== studio.study) return;
    const text = JSON.stringify(found) + chosen;
    if (text !== last) { last = text; runs = found; paintList(); }
    if (runs.length && (!chosen || !runs.some((r) => r.id === chosen))) choose(shownFirst(runs).id);
  }
  function choose(id) {
    chosen = id;
    studio.address({ run: id });
    $('.versus').hidden = true;
    $('.detail').hidden = !id;
    paintList();
    if (id) view.open(id);
  }
  $('.archived').onchange = () => tell(refresh());

  // Compared -----------------------------------------------------------------------------------
  const versus = new Chart({ title: 'Compared' });
  $('.plotted').append(versus.element);
  let compared = null;
  function paintCompared() {
    const name = $('.measure').value;
    versus.element.querySelector('b').textContent = name;
    versus.put(compared.runs.map((r, i) => ({ name: r.name, colour: COLOURS[i], points: compared.series[i][name] || [] })));
  }
  $('.compare').onclick = () => tell((async () => {
    compared = await api(`/api/training/compare?run=${[...ticked].join(',')}`);
    const names = [...new Set(compared.series.flatMap(Object.keys))].filter((n) => !/^(epochs|epoch|seen|memory)$/.test(n)).sort();
    const usual = ['loss', 'l_aug', 'aug_accuracy', 'val_accuracy', 'val_loss', 'l_con', 'l_ctr', 'spread', 'class_distance', 'lr', 'images_per_second'].filter((n) => names.includes(n));
    const kept = $('.measure').value;
    $('.measure').replaceChildren(...[...usual, ...names.filter((n) => !usual.includes(n))].map((n) => el('option', { value: n }, n)));
    if (names.includes(kept)) $('.measure').value = kept;
    const show = (v) => (v == null ? '–' : Array.isArray(v) ? v.join(', ') : String(v));
    $('.differences').replaceChildren(el('h2', {}, 'Settings that differ'), compared.differences.length
      ? el('table', {}, el('tr', {}, el('th', {}, 'setting'), compared.runs.map((r, i) => el('th', { style: `color:${COLOURS[i]}` }, r.name))),
        compared.differences.map((d) => el('tr', {}, el('td', { class: 'dim' }, d.key), d.values.map((v) => el('td', {}, show(v))))))
      : el('p', { class: 'dim' }, 'None: these runs were told the same.'));
    $('.detail').hidden = true;
    $('.versus').hidden = false;
    paintCompared();
  })());
  $('.measure').onchange = paintCompared;
  $('.back').onclick = () => choose(chosen);

  // While the tab is shown, look once a second; the answers are small.
  let quiet = 0;
  async function look() {
    if (studio.shown(root)) {
      try {
        await refresh();
        if (!$('.detail').hidden) await view.look();
        quiet = 0;
      } catch (error) {
        if ((quiet += 1) === 2) toast(error.message, 'bad');
      }
    }
    setTimeout(look, quiet ? 4000 : 1000);
  }
  studio.on('study', () => { chosen = null; ticked.clear(); last = ''; tell(refresh()); });
  const first = () => {
    const asked = new URL(location.href).searchParams.get('run');
    tell(refresh().then(() => { if (asked && runs.some((r) => r.id === asked)) choose(asked); }));
  };
  if (studio.started) first(); else studio.on('started', first);
  look();
  root.ask = ask;
}
