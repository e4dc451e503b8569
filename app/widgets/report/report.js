// The Report tab: the finished cells of the paper's tables, and the job that runs the missing ones.
import { signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { choose, confirm, orToast, submitted } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { fixed, moment, plural, seconds } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { Answered, administers, study } from '../../static/store.js';
import { button, choices, html, show, tableOf } from '../../static/view.js';

const GOING = ['queued', 'running', 'paused', 'interrupted'];
const FILES = Object.entries({ html: 'Open as page', csv: 'CSV', tex: 'LaTeX' });
/** @type {Record<string, string>} */
const WAITS = { queued: 'waiting for other jobs', paused: 'paused', interrupted: 'interrupted' };

const BUDGETS = { quick: 'quick: short training, 64 px', paper: 'paper: published settings, 256 px' };
const PROTOCOLS = { paper: 'test images, as in the paper', 'held-out': 'held-out normals' };
const AREAS = { 0: 'whole images', 1: 'the region of interest' };

/** Returns the highest mean of a column, to three decimals. @param {Answers.ReportTable} table @param {string} metric */
const best = ({ rows }, metric) =>
  fixed(Math.max(...rows.map((row) => row.values[metric]?.mean ?? Number.NEGATIVE_INFINITY)));

/** One table: rows of methods, our figures next to the paper's, a button for each seed; missing rows are grey, with the
 * time that they take. @param {{shown: Answers.ReportTable, open: (seed: Answers.ReportSeed) => void,
 * costs: Record<string, number> | undefined}} props costs: seconds of rows that miss a cell */
function Board({ shown, open, costs }) {
  const top = Object.fromEntries(shown.heads.map(({ metric }) => [metric, best(shown, metric)]));

  /** @param {Answers.ReportRow} row @param {string} metric */
  function value(row, metric) {
    const ours = row.values[metric];
    const text = ours && fixed(ours.mean);
    const spread = ours?.deviation == null ? '' : ` ± ${fixed(ours.deviation)}`;
    const paper = row.paper[metric];
    const published = html`<small title="Published in the paper">${fixed(paper)}${row.paper_starred && '*'}</small>`;
    return html`<td class=${text === top[metric] ? 'num rp-best' : 'num'}>
      ${text || '–'}${spread} ${paper != null && published}
    </td>`;
  }

  /** @param {Answers.ReportRow} row */
  const seeds = (row) =>
    row.seeds.map((one) => {
      if (!one.fit) return html`<i title="Seed ${one.seed}: not run yet" />`;
      const look = { title: `Open seed ${one.seed}`, 'aria-label': `${row.label}, seed ${one.seed}` };
      return button(one.seed, () => open(one), look);
    });

  /** @param {Answers.ReportRow} row */
  function line(row) {
    const cost = row.seconds == null && costs?.[row.label];
    return html`<tr class=${row.seeds.some((one) => one.fit) || row.failed ? null : 'rp-none'}>
      <td>
        ${row.label}${row.starred && '*'}
        ${row.collapsed > 0 && html`<small class="warn">${row.collapsed} collapsed</small>`}
      </td>
      ${
        row.failed
          ? html`<td class="rp-failed" colspan=${shown.heads.length + 1}>Failed: ${row.failed}</td>`
          : html`${shown.heads.map(({ metric }) => value(row, metric))}
            <td class="num">${cost ? about(cost) : seconds(row.seconds)}</td>`
      }
      <td><span class="rp-seeds">${seeds(row)}</span></td>
    </tr>`;
  }

  const heads = ['Method', ...shown.heads.map(({ title }) => title), 'Time', 'Seeds'];
  return html`<section class="panel rp-board"><h2>${shown.title}</h2>${tableOf(heads, shown.rows.map(line))}</section>`;
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export function mount(root, studio) {
  const seen = signal(false); // whether the tab has been visible
  const without = signal(/** @type {string[]} */ ([])); // deselected tables
  /** What the form asks for; without a choice of the network, the budget's default.
   * @type {import('@preact/signals').Signal<Record<string, any>>} */
  const given = signal({ budget: 'quick', seeds: '2', protocol: 'paper', roi: '0' });

  const base = () => `/api/report/${encodeURIComponent(study.value || '')}`;
  const report = new Answered(
    () => (seen.value && study.value ? `${base()}?${new URLSearchParams(given.value)}` : null),
    (path) => /** @type {Promise<Answers.ReportBoard>} */ (api(path)),
  );
  const wanted = () => report.value?.tables.filter((t) => !without.value.includes(t.name)) || [];
  /** What to make. */
  const body = () => {
    const { roi, seeds, ...rest } = given.value;
    return { ...rest, seeds: Number(seeds || 1), tables: wanted().map((t) => t.name) };
  };
  // The seconds of rows that miss a cell, by table and label.
  const costs = new Answered(
    () => (report.value && administers.value !== false ? report.key.value : null),
    () => api(`${base()}/time`, body()),
  );
  const renew = () => Promise.all([report.renew(), costs.renew()]);

  /** Asks whether to open the cases that a cell's detector scored, or the runs that made it. */
  async function open(/** @type {Answers.ReportSeed} */ { seed, fit, encoder }) {
    if (!fit || !encoder) return;
    /** @type {Record<string, [string, string]>} */
    const ways = {
      cases: ['Scored cases', 'in Review, with heat maps and scores'],
      fit: ["The detector's run", 'in Training'],
      encoder: ["The encoder's run", 'in Training, with its curves'],
    };
    const way = await choose(`Seed ${seed}`, ways, 'cases', 'Open');
    if (way === 'cases') studio.openReadings(fit);
    else if (way) studio.openRun(way === 'fit' ? fit : encoder);
  }

  // Shows the time needed, and starts the job after confirmation.
  const make = submitted(async () => {
    const { cells, seconds: takes } = await api(`${base()}/time`, body());
    const text =
      `${plural(cells, 'cell')} to make: ${about(takes)}. They are trained one after another in the background. ` +
      'Finished cells are kept if you stop.';
    if (cells && !(await confirm(text, 'Start'))) return;
    await api(base(), body());
    await renew();
  });
  const stop = (/** @type {number} */ job) => orToast(api(`/api/status/stop/${job}`, {}).then(renew));

  /** @param {Answers.NamedTable} table */
  const chip = ({ name, title }) => {
    const others = without.value.filter((one) => one !== name);
    const on = others.length === without.value.length;
    const turn = () => {
      without.value = on ? [...others, name] : others;
      costs.renew();
    };
    return button(title, turn, { 'aria-pressed': String(on) });
  };
  const own = (/** @type {Answers.NamedNetwork} */ { budget }) => budget === given.value.budget;
  /** The networks by name, the budget's own first and without one. @param {Answers.NamedNetwork[]} all */
  const networks = (all) =>
    [...all.filter(own), ...all.filter((one) => !own(one))].map((one) => [own(one) ? '' : one.name, one.title]);

  function Page() {
    const got = report.value;
    const { choices: offered, beside, files = [], made, network } = got || {};
    const tables = wanted();
    const cells = tables.flatMap((t) => t.rows).flatMap((r) => r.seeds);
    const missing = cells.filter((c) => !c.fit).length;
    const job = got?.job && GOING.includes(got.job.status) ? got.job : null;
    const grey = `Grey: published in the paper, on ${beside?.dataset}${beside?.own ? '' : ' (other images)'}.`;
    const none = study.value ? report.error || 'Loading the tables…' : 'Choose a study.';
    const changed = (/** @type {any} */ { currentTarget }) => {
      given.value = Object.fromEntries([...new FormData(currentTarget)].filter(([, value]) => value));
    };
    const file = (/** @type {string[]} */ [kind, words]) =>
      html`<a href=".${base()}/file.${kind}" target="_blank" rel="noopener">${words}</a>`;
    const board = (/** @type {Answers.ReportTable} */ one) =>
      html`<${Board} key=${one.name} shown=${one} open=${open} costs=${costs.value?.rows[one.name]} />`;
    return html`<section class="panel rp-ask">
        <header>
          <h2>Tables of the paper on this study</h2>
          <p class="dim">Each row is trained, fitted and scored once per seed; finished cells are reused.${' '}
            ${got && html`${network} * Without ImageNet weights. <span class="rp-beside">${grey}</span>`}
          </p>
        </header>
        <div class="rp-tables" role="group" aria-label="Tables">${offered?.tables.map(chip)}</div>
        <form class="rp-form" onChange=${changed} onSubmit=${make}>
          <label>Budget<select name="budget">${choices(Object.entries(BUDGETS))}</select></label>
          <label>Network<select name="network">${choices(networks(offered?.networks || []))}</select></label>
          <label>Seeds<input type="number" name="seeds" min="1" max="20" step="1" defaultValue="2" /></label>
          <label>Threshold from<select name="protocol">${choices(Object.entries(PROTOCOLS))}</select></label>
          <label>Image area<select name="roi">${choices(Object.entries(AREAS))}</select></label>
          <button class="main make" hidden=${administers.value === false} disabled=${job || !cells.length}>
            ${!got ? 'Make report' : missing ? `Make ${plural(missing, 'missing cell')}` : 'Write report'}
          </button>
          <span class="rp-files">
            ${made && html`<span class="dim">Written ${moment(made)}</span>`}
            ${FILES.filter(([kind]) => files.includes(kind)).map(file)}
          </span>
        </form>
        ${
          job &&
          html`<div class="rp-going">
            <progress max="1" value=${job.progress} aria-label="Report" />
            <p class="num" role="status">${WAITS[job.status] || job.message}</p>${button('Stop', () => stop(job.id))}
          </div>`
        }
      </section>
      <div class="rp-boards">
        ${tables.map(board)}
        ${!got && html`<p class="dim">${none}</p>`}
      </div>`;
  }
  show(finder(root)('.rp-page'), Page);

  const look = () => studio.shown(root) && renew();
  studio.on('back', look);
  studio.on('tab', (tab) => tab === 'report' && look());
  studio.on('status', () => studio.shown(root) && GOING.includes(report.value?.job?.status || '') && report.renew());
  new ResizeObserver(() => (seen.value ||= studio.shown(root))).observe(root);
}
