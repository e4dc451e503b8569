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

/** Offers two ways to begin, while there is no study. @param {{demo: () => void, own: () => void}} props */
function Doors({ demo, own }) {
  if (!started.value || study.value || plan.value?.stages.length) return null;
  if (!administers.value)
    return html`<div class="empty panel"><h2>No study yet</h2><p class="dim">An administrator can import one.</p></div>`;
  return html`<div class="empty panel">
    <h2>Find what does not look normal</h2>
    <p class="dim">The studio learns from normal images, flags the others, and learns again from the first lesions that you mark.</p>
    <img src="./page/static/first.jpg" width="1056" height="352" alt="A drawn frame with a lesion, its heat map, and the lesion outlined" />
    <div class="ways">
      <button type="button" class="way own" onClick=${own}><b>Start with my images</b><span>A folder, files or a zip; only normal images are needed. Every case has a score in about a minute.</span></button>
      <button type="button" class="way draw-demo" onClick=${demo}><b>Show me the demo</b><span>Drawn endoscopy frames with lesions, already scored, trained on and marked: open in a few seconds.</span></button>
    </div>
  </div>`;
}

/** The open demo study, with the tour and a training on this machine. @param {{train: () => void}} props */
function Demo({ train }) {
  if (study.value !== 'demo' || !administers.value) return null;
  const trains = plan.value?.stages.some((stage) => /^Train/.test(stage.title));
  return html`<section class="panel demo" aria-label="Demo study">
    <p>The images of this study are drawn, with lesions chosen to be easy to see. Its figures show how the studio works; they are not results.</p>
    <button type="button" class="main" title="Six minutes through all tabs, in large type" onClick=${() => location.assign('./tour')}>Take the tour</button>
    <button type="button" class="train-demo" disabled=${trains} title="Trains an encoder and three detectors after all other jobs; about ten minutes on two cores" onClick=${train}>Train it here</button>
  </section>`;
}

/** Asks, listing the losses, and removes a study. @param {string} id @returns {Promise<boolean>} whether it was removed */
async function remove(id) {
  const [{ study: row, table }, { runs }] = await Promise.all([
    api(`/api/study/${encodeURIComponent(id)}/overview`),
    api(`/api/training/runs?study=${encodeURIComponent(id)}`),
  ]);
  const cases = Object.values(table)
    .flatMap(Object.values)
    .reduce((sum, n) => sum + n, 0);
  const question =
    `Remove “${row.name}”? This removes ${plural(cases, 'case')}, ${plural(runs.length, 'run')} with heat maps and cluster ` +
    'maps, all decisions, lesion masks and findings. It stays in the bin for a week; the original ' +
    'images stay where they are.';
  if (!(await confirm(question, `Remove “${row.name}”`, 'Keep it', true))) return false;
  await api(`/api/study/${encodeURIComponent(id)}`, undefined, { method: 'DELETE' });
  return true;
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const { bring, join } = importing(root, studio);
  const look = async () => {
    await api(`/api/study/${studio.study}/look`, {});
    toast('Scoring the cases with pretrained features. Review then lists them by score.', 'good');
  };
  const removeOpen = async () => {
    if (!studio.study || !(await remove(studio.study))) return;
    binned.renew();
    studio.chooseStudy(null);
  };
  const demo = async () => {
    await api('/api/study/demo', { train: false });
    studio.chooseStudy('demo');
    studio.openTab('review');
  };
  const train = async () => {
    await api('/api/study/demo', { train: true });
    toast('Training on the drawn images; the Training tab shows its curves.', 'good');
    await studio.renewStatus();
  };
  const own = () => {
    root.querySelector('.import')?.scrollIntoView({ block: 'nearest' });
    $('.folder').focus();
  };

  $('.remove').onclick = () => orToast(removeOpen());
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
  show($('.about'), About, { look: () => orToast(look()), train: () => orToast(train()), open: studio.openTab });
  show($('.sampled'), Sample);
  show($('.covered'), Covered, { studio });
  planCard($('.planned'), studio);
  show($('.doors'), Doors, { demo: () => orToast(demo()), own });
  show($('.binned'), Bin, {
    restored: (/** @type {Answers.Binned} */ row) => row.kind === 'study' && studio.chooseStudy(row.id),
  });
  effect(() => {
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
  const see = () => {
    seen.value ||= studio.shown(root);
  };
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

/** @param {{look: () => void, train: () => void, open: (tab: string) => void}} props */
function About({ look, train, open }) {
  return html`<${Demo} train=${train} /><${Next} look=${look} open=${open} /><${Summary} />`;
}

// During a blind session its tab shows no name and no label, only a message and a button to end the session.
/** @param {{studio: Page.Studio}} props */
function Covered({ studio }) {
  const end = async () => {
    await api('/api/reading/end', {});
    toast('The session has ended; its summary is in Review.', 'good');
    await studio.renewStatus();
  };
  return html`<h2>A blind session is open</h2>
    <p>The contents of this study would reveal the labels. They are shown again when the session has ended.</p>
    <div>
      ${button('Continue reading', () => studio.openTab('review'), { class: 'main' })}
      ${button('End the session', () => orToast(end()))}
    </div>`;
}

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
