// The Study tab: import, the open study's contents, removal. Administrators' functions are in manage.js.

import { effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { plural } from '../../static/format.js';
import { planCard } from '../../static/plan.js';
import { Answered, administers, plan, started, study } from '../../static/store.js';
import { button, html, show } from '../../static/view.js';
import { importing } from './importing.js';
import { Heading, Next, Sample, Summary } from './overview.js';
import { covered, renew, seen } from './room.js';

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const { bring, join } = importing(root, studio);
  const look = async () => {
    await api(`/api/study/${studio.study}/look`, {});
    toast('Scoring the cases with pretrained features. Review then lists them by score.', 'good');
  };
  const own = () => {
    root.querySelector('.import')?.scrollIntoView({ block: 'nearest' });
    $('.folder').focus();
  };

  const press = (/** @type {string} */ selector, /** @type {() => Promise<unknown>} */ act) => {
    $(selector).onclick = () => orToast(act());
  };
  press('.remove', async () => {
    const path = /** @type {const} */ (`/api/study/${encodeURIComponent(studio.study || '')}`);
    const [{ study: row }, { runs }] = await Promise.all([
      api(`${path}/overview`),
      api(`/api/training/runs?study=${encodeURIComponent(studio.study || '')}`),
    ]);
    const question =
      `Remove “${row.name}”? This removes ${plural(row.cases, 'case')}, ${plural(runs.length, 'run')} with heat maps and ` +
      'cluster maps, all decisions, lesion masks and findings. It stays in the bin for a week; the original ' +
      'images stay where they are.';
    if (!(await confirm(question, `Remove “${row.name}”`, 'Keep it', true))) return;
    await api(path, undefined, { method: 'DELETE' });
    binned.renew();
    studio.chooseStudy(null);
  });
  press('.draw-demo', async () => {
    await api('/api/study/demo', { train: false });
    studio.chooseStudy('demo');
    studio.openTab('review');
  });
  press('.train-demo', async () => {
    await api('/api/study/demo', { train: true });
    toast('Training on the drawn images; the Training tab shows its curves.', 'good');
    await studio.renewStatus();
  });
  press('.end', async () => {
    await api('/api/reading/end', {});
    toast('The session has ended; its summary is in Review.', 'good');
    await studio.renewStatus();
  });
  $('.own').onclick = own;
  $('.take-tour').onclick = () => location.assign('./tour');
  $('.go-on').onclick = () => studio.openTab('review');
  const unfolded = signal(false); // the import's form, while a study is open
  $('.import-turn').onclick = () => {
    unfolded.value = !unfolded.value;
    if (unfolded.value) own();
  };
  effect(() => {
    study.value;
    unfolded.value = false;
  });
  show($('.heading'), Heading);
  show($('.about'), About, { look: () => orToast(look()), open: studio.openTab });
  show($('.sampled'), Sample);
  planCard($('.planned'), studio);
  show($('.binned'), Bin, {
    restored: (/** @type {Answers.Binned} */ row) => row.kind === 'study' && studio.chooseStudy(row.id),
  });
  effect(() => {
    const none = started.value && !study.value && !plan.value?.stages.length;
    $('.doors').hidden = !none || !administers.value;
    $('.no-study').hidden = !none || Boolean(administers.value);
    $('.demo').hidden = study.value !== 'demo' || !administers.value;
    $('.train-demo').disabled = plan.value?.stages.some((stage) => /^Train/.test(stage.title)) ?? false;
    // During a blind session nothing shows a name or a label.
    const hidden = covered.value;
    $('.covered').hidden = !study.value || !hidden;
    $('.there').hidden = !study.value || hidden !== false;
    const folded = Boolean(study.value) && !unfolded.value;
    $('.study-room').classList.toggle('folded', folded);
    $('.import-turn').setAttribute('aria-expanded', String(!folded));
  });

  // Fetched in parallel: the import's buttons must not wait for seldom used forms.
  import('./manage.js').then(
    ({ manage }) => manage(root, studio, { bring, join }),
    (error) => toast(error.message, 'bad'),
  );
  studio.on('cases', renew);
  studio.on('back', () => studio.shown(root) && renew());
  const see = () => (seen.value ||= studio.shown(root));
  effect(() => {
    if (started.value) requestAnimationFrame(() => requestAnimationFrame(see)); // the requested tab opens first
  });
  studio.on('tab', (tab) => {
    if (tab !== 'study') return;
    if (seen.peek()) renew(); // something may have changed while another tab was visible
    seen.value = true;
    binned.renew();
    orToast(studio.renewStatus());
  });
}

/** @param {{look: () => void, open: (tab: string) => void}} props */
const About = (props) => html`<${Next} ...${props} /><${Summary} />`;

const binned = new Answered(
  () => (started.value ? '' : null),
  () => api('/api/bin'),
);

/** The bin: runs and studies removed within the last week, each with a button to restore it; a blind reader has none.
 * @param {{restored: (row: Answers.Binned) => unknown}} props called after something was restored */
function Bin({ restored }) {
  if (!binned.value?.rows.length) return null;
  /** @param {Answers.Binned} row */
  const back = async (row) => {
    await api(`/api/bin/${row.kind}/${encodeURIComponent(row.id)}/restore`, {});
    toast(`“${row.name}” restored.`, 'good');
    restored(row);
    await binned.renew();
  };
  const line = (/** @type {Answers.Binned} */ row) => html`<li>
    ${row.kind === 'run' ? `Run “${row.name}” of ${row.study}` : `Study “${row.name}”`}, until ${row.until.slice(0, 10)}${' '}
    ${button('Restore', () => orToast(back(row)), { class: 'link' })}
  </li>`;
  return html`<section class="panel bin" aria-label="Bin">
    <h3>Bin</h3><p class="dim">Removed items stay here for ${binned.value.days} days.</p>
    <ul>${binned.value.rows.map(line)}</ul>
  </section>`;
}
