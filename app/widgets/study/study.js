// The Study tab: import, report, counts, a sample with outlines. What administrators set lives in manage.js.
import { api } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { planCard } from '../../static/plan.js';
import { bin } from './bin.js';
import { cover } from './covered.js';
import { importing } from './importing.js';
import { nextSteps } from './next.js';
import { counts, facts, parts, showReport, tile } from './overview.js';

const SAMPLE = 28; // cases

/** @param {HTMLElement} root @param {import('../../static/types').Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  let seed = 0;
  /** @type {{show: (study: string) => void} | null} the forms of manage.js, once they are there */
  let admin = null;
  let turn = 0; // an answer that comes after a newer question is thrown away
  const { bring, join } = importing(root, studio);
  const next = nextSteps(root, studio, () => orToast(look()));
  const removed = bin($('.bin'), (row) => row.kind === 'study' && studio.chooseStudy(row.id));

  const covered = cover($('.covered'), studio, () => orToast(show()));

  async function tiles() {
    turn += 1;
    const mine = turn;
    const part = encodeURIComponent($('.part').value);
    const { cases } = await api(`/api/study/${studio.study}/sample?count=${SAMPLE}&seed=${seed}&part=${part}`);
    if (mine === turn) $('.tiles').replaceChildren(...cases.map(tile));
  }

  async function show(forms = true) {
    const { study } = studio;
    $('.empty').hidden = Boolean(study);
    if (!study) {
      $('.covered').hidden = $('.there').hidden = true;
      return;
    }
    const hidden = await covered();
    if (study !== studio.study) return;
    $('.there').hidden = hidden;
    if (hidden) {
      for (const name of ['.title', '.facts', '.counts', '.report', '.tiles']) $(name).replaceChildren();
      return;
    }
    const overview = await api(`/api/study/${study}/overview`);
    if (study !== studio.study) return;
    $('.title').textContent = overview.study.name;
    $('.facts').textContent = facts(overview);
    $('.counts').replaceChildren(...counts(overview));
    const kept = $('.part').value;
    $('.part').replaceChildren(...parts(overview));
    $('.part').value = kept;
    if (!$('.part').value) $('.part').value = 'all';
    showReport($('.report'), overview);
    orToast(next.show());
    if (forms) admin?.show(study);
    await tiles();
  }

  $('.another').onclick = () => {
    seed += 1;
    orToast(tiles());
  };
  $('.part').onchange = () => orToast(tiles());
  for (const kind of ['roi', 'lesion'])
    $(`.show-${kind}`).onchange = (/** @type {any} */ event) =>
      $('.tiles').classList.toggle(`no-${kind}`, !event.target.checked);
  const remove = async () => {
    const { study } = studio;
    const name = $('.title').textContent;
    const query = `study=${encodeURIComponent(study || '')}`;
    const [{ table }, { runs }] = await Promise.all([
      api(`/api/study/${encodeURIComponent(study || '')}/overview`),
      api(`/api/training/runs?${query}`),
    ]);
    const cases = Object.values(table)
      .flatMap(Object.values)
      .reduce((sum, n) => sum + n, 0);
    const question =
      `Remove “${name}”? What goes: ${plural(cases, 'case')}, ${plural(runs.length, 'run')} with heat maps and cluster ` +
      'maps, all decisions, lesion masks and findings. It stays in the bin for a week; the original ' +
      'images stay where they are.';
    if (!(await confirm(question, `Remove “${name}”`, 'Keep it', true))) return;
    await api(`/api/study/${study}`, undefined, { method: 'DELETE' });
    removed.show();
    studio.chooseStudy(null);
  };
  $('.remove').onclick = () => orToast(remove());
  const look = async () => {
    await api(`/api/study/${studio.study}/look`, {});
    toast('Looking, with features learnt on other images: about a minute. Its cases then stand in Review.', 'good');
  };
  $('.look').onclick = () => orToast(look());

  // Fetched beside: the import's own buttons must not wait for forms that are seldom used.
  import('./manage.js').then(
    ({ manage }) => {
      admin = manage(root, studio, { bring, join, show: () => orToast(show()), refresh: () => orToast(show(false)) });
    },
    (error) => toast(error.message, 'bad'),
  );
  $('.empty').before(planCard(studio));
  studio.on('plan', (plan) => {
    $('.empty').hidden = Boolean(studio.study || plan.stages.length);
  });
  studio.on('study', () => orToast(show()));
  studio.on('cases', () => orToast(show()));
  studio.on('tab', (tab) => tab === 'study' && removed.show());
  removed.show();
  if (studio.started) orToast(show());
  else studio.on('started', () => orToast(show()));
}
