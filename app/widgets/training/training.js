// The Training tab: the form of a new run, the list of runs, one run live, several compared.
import { api, questions } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { trained } from '../../static/store.js';
import { Comparison } from './comparison.js';
import { newRun } from './new_run.js';
import { firstShown, RunList } from './run_list.js';
import { RunView } from './run_view.js';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const forms = await api('/api/training/forms');
  /** @type {Answers.RunRow[]} */
  let runs = [];
  /** @type {string | null} */
  let chosen = null;

  const list = new RunList(root, choose);
  const comparison = new Comparison(root);
  const maker = newRun(root, studio, forms, async (made) => {
    await refresh();
    choose(made.run);
  });
  const view = new RunView(root, forms, {
    changed: async (next) => {
      await refresh();
      if (next !== undefined) choose(next);
    },
    clone: (run) => maker.fill(run),
  });

  /** @param {string | null} id */
  function choose(id) {
    chosen = id;
    trained.value = id;
    $('.versus').hidden = true;
    $('.detail').hidden = !id;
    list.show(runs, chosen);
    if (id) view.open(id);
  }

  const question = questions();
  async function refresh() {
    const { study } = studio;
    if (!study) {
      runs = [];
      list.show(runs, chosen);
      return;
    }
    const query = `study=${encodeURIComponent(study)}&archived=${$('.archived').checked}`;
    const newest = question();
    const found = (await api(`/api/training/runs?${query}`)).runs;
    if (study !== studio.study || !newest()) return;
    runs = found;
    list.show(runs, chosen);
    if (runs.length && !runs.some((r) => r.id === chosen)) choose(firstShown(runs).id);
  }

  $('.archived').onchange = () => orToast(refresh());
  $('.compare').onclick = () => orToast(comparison.open(list.ticked));
  $('.back').onclick = () => choose(chosen);
  studio.on('status', ({ beside }) => list.hint(beside));
  studio.on('run', (id) => orToast(refresh().then(() => choose(id))));
  studio.on('study', () => {
    runs = [];
    list.ticked.clear();
    choose(null);
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
  const first = async () => {
    const asked = trained.peek();
    await orToast(refresh());
    if (asked && runs.some((r) => r.id === asked)) choose(asked);
  };
  if (studio.started) first();
  else studio.on('started', first);
  look();
}
