// The Trials tab: a reader's own lists; for administrators plans, sample sizes, progress and reports.
import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { api } from '../../static/api.js';
import { confirm, orToast, toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { Fields, Form } from '../../static/form.js';
import { day, percent, plural } from '../../static/format.js';
import { Answered, administers, study } from '../../static/store.js';
import { given, html, show, tableOf } from '../../static/view.js';

const PERIOD = 8000; // milliseconds between two checks of the readers' progress
const NO_LIST = 'You have no open list. Administrators plan trials here.';
/** Fields that only some plans have. @type {Record<string, (plan: Values) => boolean>} */
const WHEN = {
  normal: ({ cases }) => cases === 'drawn',
  abnormal: ({ cases }) => cases === 'drawn',
  washout: ({ design }) => design === 'crossover',
  rule: ({ marks }) => marks,
  blind_to: ({ reference }) => reference === 'panel',
  disagreement: ({ reference }) => reference === 'panel',
};
/** @type {Record<string, string>} */
const STATE = { ready: 'Open list', open: 'Continue reading' };

/** @param {{lists: Answers.ReaderList[], open: (list: Answers.ReaderList) => void}} props */
function Lists({ lists, open }) {
  if (!lists.length) return null;
  const row = (/** @type {Answers.ReaderList} */ list) => html`<tr>
    <td class="tr-strong">${list.name}</td><td>list ${list.part} of ${list.parts}</td><td class="num">${list.read} of ${list.cases} read</td>
    <td>${
      STATE[list.state]
        ? html`<button class="main" onClick=${() => open(list)}>${STATE[list.state]}</button>`
        : list.opens
          ? `opens on ${day(list.opens)}`
          : 'finished, thank you'
    }</td></tr>`;
  return html`<section class="panel"><h2>Your lists</h2>
    <p class="dim">During a trial you see only your list of the study.</p>
    <table>${lists.map(row)}</table></section>`;
}

/** Shows how many readers and cases are needed to find a difference. @param {{rows: Answers.Power[]}} props */
function Sizes({ rows }) {
  const cases = [...new Set(rows.map((r) => r.cases))];
  const readers = [...new Set(rows.map((r) => r.readers))];
  const power = (/** @type {number} */ r, /** @type {number} */ n) =>
    rows.find((x) => x.readers === r && x.cases === n)?.power ?? 0;
  const cell = (/** @type {number} */ chance) =>
    html`<td class=${chance >= 0.8 ? 'tr-strong' : 'dim'}>${percent(chance, 0)}</td>`;
  const row = (/** @type {number} */ r) => html`<tr><td>${r}</td>${cases.map((n) => cell(power(r, n)))}</tr>`;
  return html`<details><summary>Sample size: power to detect the effect, by readers and cases</summary>
    ${tableOf(['Readers', ...cases.map((n) => `${n} cases`)], readers.map(row), { class: 'num' })}
    <p class="dim">For an AUC of 0.85, half of the cases abnormal, and the correlations of a published trial; bold from 80 %.</p></details>`;
}

/** @param {{label: string, names: string[], chosen: string[], on: (names: string[]) => void}} props */
function Names({ label, names, chosen, on }) {
  const turn = (/** @type {string} */ name) =>
    on(chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name]);
  return html`<div role="group" aria-label=${label}><b>${label}</b><div class="tr-names">${names.map(
    (name) =>
      html`<label class="check"><input type="checkbox" checked=${chosen.includes(name)} onChange=${() => turn(name)} />${name}</label>`,
  )}${!names.length && html`<span class="dim">Nobody yet: add readers in Study, Manage, Accounts.</span>`}</div></div>`;
}

/** @param {{about: Answers.Trials, keep: (plan: Values) => void}} props */
function NewPlan({ about, keep }) {
  const { form, sizes } = useMemo(() => {
    const usual = { ...about.usual, run: about.runs[0]?.id ?? '' };
    const matters = (/** @type {string} */ key) => !WHEN[key] || WHEN[key](form.values.value);
    const form = new Form(about.form, usual, () => {}, { open: 3, matters });
    const sizes = new Answered(
      () => form.values.value.difference,
      (difference) => api(`/api/trials/sizes?difference=${difference}`),
    );
    return { form, sizes };
  }, []);
  const plan = form.values.value;
  const option = (/** @type {{id: string, title: string, name: string}} */ r) =>
    html`<option value=${r.id} selected=${r.id === plan.run}>${r.title} · ${r.name}</option>`;
  return html`<section class="panel"><h2>Plan a trial</h2>
    <div class="tr-who"><h3>Readers and run</h3><${Names} label="Readers" names=${about.readers} chosen=${plan.readers} on=${(/** @type {string[]} */ readers) => form.set({ readers })} />
    <label>The aided arm shows <select aria-label="Run" onChange=${given((run) => form.set({ run }))}>
      <option value="">nothing</option>${about.runs.map(option)}</select></label></div>
    <div class="tr-form explained"><${Fields} form=${form} /></div>
    ${plan.reference === 'panel' && html`<${Names} label="Panel" names=${about.panel} chosen=${plan.panel} on=${(/** @type {string[]} */ panel) => form.set({ panel })} />`}
    <${Sizes} rows=${sizes.value?.rows || []} />
    <div class="tr-acts"><button class="main" onClick=${() => keep(form.get())}>Save plan</button></div></section>`;
}

/** @param {{trial: Answers.Trial, act: (trial: Answers.Trial, what: 'start' | 'close') => void}} props */
function OneTrial({ trial, act }) {
  const { parts } = trial;
  /** @type {[name: string, done: unknown, when: string | null | undefined][]} */
  const steps = [
    ['Planned', true, null],
    ['Started', trial.started, trial.started],
    ['First decision: plan frozen', trial.frozen, trial.frozen],
    ['Closed, with report', trial.closed, trial.closed],
  ];
  const file = (/** @type {string} */ kind, /** @type {string} */ title) =>
    html`<a href=${`./api/trials/${trial.id}/report/${kind}`} target="_blank" rel="noopener">${title}</a>`;
  const row = (/** @type {typeof parts[number]} */ p) => html`<tr>
    <td>${p.reader}</td><td>${p.number + 1}</td><td>${p.arm === 'both' ? 'unaided, then aided' : p.arm}</td>
    <td><progress max=${p.cases} value=${p.read} aria-label="Progress of ${p.reader}" /> ${p.read} of ${p.cases}</td>
    <td class="dim">${p.ended ? `finished ${day(p.ended)}` : p.opened ? 'reading' : 'not started'}</td></tr>`;
  return html`<section class="panel"><h2>${trial.name}</h2><p class="dim">${plural(parts[0]?.cases ?? 0, 'case')}, ${trial.plan.design}</p>
    <ol class="tr-steps">${steps.map(([name, done, when]) => html`<li class=${done ? 'done' : ''}>${name}${when ? `, ${day(when)}` : ''}</li>`)}</ol>
    ${tableOf(['Reader', 'List', 'Arm', 'Progress', 'State'], parts.map(row), { class: 'num' })}
    <p class="dim">Digest of the plan <span class="tr-digest">${trial.digest}</span></p>
    <div class="tr-acts">
      ${!trial.started && html`<button class="main" onClick=${() => act(trial, 'start')}>Start …</button>`}
      ${trial.started && !trial.closed && html`<button onClick=${() => act(trial, 'close')}>Close …</button>`}
      ${trial.closed && [file('html', 'Report'), file('pdf', 'PDF'), file('zip', 'All files (ZIP)')]}
    </div></section>`;
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export function mount(root, studio) {
  const seen = signal(false); // whether the tab has been visible
  const lists = new Answered(
    () => (seen.value ? study.value || '' : null),
    () => api('/api/trials/lists'),
  );
  const about = new Answered(
    () => (seen.value && administers.value ? study.value : null),
    (id) => api(`/api/trials/of/${encodeURIComponent(id)}`),
  );
  const renew = () => Promise.all([lists.renew(), about.renew()]);
  const look = () => studio.shown(root) && renew();

  const open = async (/** @type {Answers.ReaderList} */ { trial }) => {
    const { study: its } = await api('/api/trials/open', { trial });
    await studio.renewStatus();
    if (its !== study.value) studio.chooseStudy(its);
    studio.openTab('review');
  };
  const keep = async (/** @type {Values} */ plan) => {
    await api(`/api/trials/of/${encodeURIComponent(study.value || '')}`, { plan });
    toast('Plan saved. Start the trial when its readers may begin.', 'good');
    await renew();
  };
  async function act(/** @type {Answers.Trial} */ trial, /** @type {'start' | 'close'} */ what) {
    const question = {
      start: `Start “${trial.name}”? Until it is closed, its readers see only their lists; the first decision freezes the plan.`,
      close: `Close “${trial.name}”? Its readers see the whole study again; unread cases stay unread.`,
    }[what];
    if (!(await confirm(question, what === 'start' ? 'Start' : 'Close'))) return;
    orToast(api(`/api/trials/${trial.id}/${what}`, {}).then(renew));
  }

  function Page() {
    const found = about.value;
    const mine = lists.value?.lists || [];
    const none = administers.value === false && lists.value && !mine.length ? NO_LIST : '';
    const message = about.error || (study.value ? none : 'Choose a study.');
    return html`<${Lists} lists=${mine} open=${(/** @type {any} */ list) => orToast(open(list))} />
      ${found?.trials.map((/** @type {Answers.Trial} */ trial) => html`<${OneTrial} key=${trial.id} trial=${trial} act=${act} />`)}
      ${found && html`<${NewPlan} key=${study.value} about=${found} keep=${(/** @type {Values} */ plan) => orToast(keep(plan))} />`}
      ${message && html`<p class="panel dim">${message}</p>`}`;
  }
  show(finder(root)('.tr-page'), Page);
  studio.on('back', look);
  studio.on('tab', (tab) => tab === 'trials' && look());
  new ResizeObserver(() => (seen.value ||= studio.shown(root))).observe(root);
  setInterval(() => about.value?.trials.some((t) => t.started && !t.closed) && look(), PERIOD);
}
