// The Training tab: the form of a new run, the list of runs, one run live, several compared.
import { computed, effect } from '@preact/signals';
import { api, questions } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { trained } from '../../static/store.js';
import { show } from '../../static/view.js';
import { Comparison, compared } from './comparison.js';
import { newRun } from './new_run.js';
import { firstShown, hint, Rows, runs, ticked } from './run_list.js';
import { runView } from './run_view.js';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const forms = await api('/api/training/forms');
  const choose = (/** @type {string | null} */ id) => {
    trained.value = id;
    compared.value = null;
  };
  const maker = newRun(root, studio, forms, async (made) => {
    await refresh();
    choose(made.run);
  });
  const changed = async (/** @type {string | null | undefined} */ next) => {
    await refresh();
    if (next !== undefined) choose(next);
  };
  const view = runView(root, forms, changed, maker.fill);

  const question = questions();
  async function refresh() {
    const { study } = studio;
    const newest = question();
    const query = `study=${encodeURIComponent(study || '')}&archived=${$('.archived').checked}`;
    const found = study ? (await api(`/api/training/runs?${query}`)).runs : [];
    if (!newest()) return;
    runs.value = found;
    if (found.length && !found.some((r) => r.id === trained.peek())) choose(firstShown(found).id);
  }

  show($('.runs tbody'), Rows, { choose });
  show($('.versus'), Comparison);
  effect(() => {
    const any = runs.value.length > 0;
    $('.runs').hidden = !any;
    $('.nothing').hidden = any;
    $('.versus').hidden = !any || !compared.value;
    $('.detail').hidden = !any || !trained.value || Boolean(compared.value);
    $('.runs .hint').textContent = hint();
    $('.compare').disabled = ticked.value.length < 2;
  });
  const open = computed(() => (runs.value.some((r) => r.id === trained.value) ? trained.value : null));
  effect(() => {
    if (open.value) view.open(open.value);
  });
  // The running run is scrolled into view only when it begins, not against later scrolling.
  const running = computed(() => runs.value.find((r) => r.job?.here && r.job.status === 'running')?.id);
  effect(() => {
    const row = running.value && `[data-run="${running.value}"]`;
    if (row) requestAnimationFrame(() => root.querySelector(row)?.scrollIntoView({ block: 'nearest' }));
  });

  $('.archived').onchange = () => orToast(refresh());
  const compare = async () => {
    compared.value = await api(`/api/training/compare?run=${ticked.value.join(',')}`);
  };
  $('.compare').onclick = () => orToast(compare());
  studio.on('run', () => {
    compared.value = null;
    orToast(refresh());
  });
  studio.on('study', () => {
    runs.value = [];
    ticked.value = [];
    compared.value = null;
    orToast(refresh());
  });

  // While the tab is visible it follows the studio's events; the answers are small.
  let failed = 0;
  async function look() {
    if (!studio.shown(root)) return;
    try {
      await refresh();
      if (!$('.detail').hidden) await view.look();
      failed = 0;
    } catch (error) {
      failed += 1;
      if (failed === 2) toast(error.message, 'bad');
    }
  }
  for (const event of ['status', 'back']) studio.on(event, look);
  new IntersectionObserver(look).observe(root);
  const first = () => orToast(refresh());
  if (studio.started) first();
  else studio.on('started', first);
}
