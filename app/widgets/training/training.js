// The Training tab: the form of a new run, the list of runs, one run live, several compared.
import { computed, effect } from '@preact/signals';
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { study, trained } from '../../static/store.js';
import { show } from '../../static/view.js';
import { Comparison, compared } from './comparison.js';
import { newRun } from './new_run.js';
import { archived, firstShown, hint, Rows, runs, ticked } from './run_list.js';
import { runView } from './run_view.js';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const forms = await api('/api/training/forms');
  const choose = (/** @type {string} */ id) => {
    trained.value = id;
    compared.value = null;
  };
  const changed = async (/** @type {string | undefined} */ next) => {
    await runs.renew();
    if (next) choose(next);
  };
  const view = runView(root, forms, changed, newRun(root, studio, forms, changed));

  show($('.runs tbody'), Rows, { choose });
  show($('.versus'), Comparison);
  effect(() => {
    const any = Boolean(runs.value?.length);
    $('.runs').hidden = !any;
    $('.nothing').hidden = any;
    $('.versus').hidden = !any || !compared.value;
    $('.detail').hidden = !any || !trained.value || Boolean(compared.value);
    $('.runs .hint').textContent = hint();
    $('.compare').disabled = ticked.value.length < 2;
  });
  effect(() => {
    const found = runs.value;
    if (found?.length && !found.some((r) => r.id === trained.peek())) choose(firstShown(found).id);
  });
  const open = computed(() => runs.value?.find((r) => r.id === trained.value)?.id);
  effect(() => {
    if (open.value) view.open(open.value);
  });
  const failure = computed(() => runs.error);
  effect(() => {
    if (failure.value) toast(failure.value, 'bad');
  });
  // The running run is scrolled into view only when it begins, not against later scrolling.
  const running = computed(() => runs.value?.find((r) => r.job?.here && r.job.status === 'running')?.id);
  effect(() => {
    const row = running.value && `[data-run="${running.value}"]`;
    if (row) requestAnimationFrame(() => root.querySelector(row)?.scrollIntoView({ block: 'nearest' }));
  });

  $('.archived').onchange = () => {
    archived.value = $('.archived').checked;
    runs.renew();
  };
  const compare = async () => {
    compared.value = await api(`/api/training/compare?run=${ticked.value.join(',')}`);
  };
  $('.compare').onclick = () => orToast(compare());
  studio.on('run', () => {
    compared.value = null;
    runs.renew();
  });
  effect(() => {
    study.value;
    ticked.value = [];
    compared.value = null;
  });

  // While the tab is visible it follows the studio's events; the answers are small.
  function look() {
    if (!studio.shown(root)) return;
    runs.renew();
    if (!$('.detail').hidden) view.look().catch(console.debug);
  }
  for (const event of ['status', 'back']) studio.on(event, look);
  new IntersectionObserver(look).observe(root);
}
