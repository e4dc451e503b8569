// The Report tab: the finished cells of the paper's tables, and the job that runs the missing ones.
import { api, questions } from '../../static/api.js';
import { choose, confirm, orToast } from '../../static/dialogs.js';
import { action, el, fill, finder, num, options, table } from '../../static/dom.js';
import { fixed, moment, plural, seconds } from '../../static/format.js';
import { about } from '../../static/plan.js';
import { administers } from '../../static/store.js';
import { dom } from '../../static/view.js';

const GOING = ['queued', 'running', 'paused', 'interrupted'];
/** @type {Record<string, string>} */
const FILES = { html: 'Open as page', csv: 'CSV', tex: 'LaTeX' };
/** @type {Record<string, string>} */
const WAITS = { queued: 'waiting for other jobs', paused: 'paused', interrupted: 'interrupted' };

/** Returns the highest mean of a column, to three decimals. @param {Answers.ReportTable} table @param {string} metric */
const best = ({ rows }, metric) =>
  fixed(Math.max(...rows.map((row) => row.values[metric]?.mean ?? Number.NEGATIVE_INFINITY)));

/** One table: rows of methods, our figures next to the paper's, a button for each seed; missing rows are grey, with the
 * time that they take. @param {Answers.ReportTable} shown @param {(seed: Answers.ReportSeed) => void} open @param {Record<string, number>} costs seconds of rows that miss a cell */
function board(shown, open, costs) {
  const top = Object.fromEntries(shown.heads.map(({ metric }) => [metric, best(shown, metric)]));

  /** @param {Answers.ReportRow} row @param {string} metric */
  function value(row, metric) {
    const ours = row.values[metric];
    const text = ours && fixed(ours.mean);
    const spread = ours?.deviation == null ? '' : ` ± ${fixed(ours.deviation)}`;
    const paper = row.paper[metric];
    const published = () =>
      dom`<small title="Published in the paper">${fixed(paper)}${row.paper_starred && '*'}</small>`;
    const look = text === top[metric] ? 'num rp-best' : 'num';
    return dom`<td class=${look}>${text || '–'}${spread} ${paper != null && published()}</td>`;
  }

  /** @param {Answers.ReportRow} row */
  const dots = (row) =>
    row.seeds.map((one) => {
      if (!one.fit) return el('i', { title: `Seed ${one.seed}: not run yet` });
      const look = { title: `Open seed ${one.seed}`, 'aria-label': `${row.label}, seed ${one.seed}` };
      return action(String(one.seed), () => open(one), look);
    });

  /** @param {Answers.ReportRow} row */
  const time = (row) => (row.seconds == null && costs[row.label] ? about(costs[row.label]) : seconds(row.seconds));
  const wide = shown.heads.length + 1;
  /** @param {Answers.ReportRow} row */
  const line = (row) => dom`<tr class=${row.seeds.some((one) => one.fit) || row.failed ? null : 'rp-none'}>
    <td>
      ${row.label}${row.starred && '*'}
      ${row.collapsed > 0 && el('small', { class: 'warn' }, `${row.collapsed} collapsed`)}
    </td>
    ${
      row.failed
        ? el('td', { class: 'rp-failed', colspan: wide }, `Failed: ${row.failed}`)
        : [shown.heads.map(({ metric }) => value(row, metric)), num(time(row))]
    }
    <td><span class="rp-seeds">${dots(row)}</span></td>
  </tr>`;

  const heads = ['Method', ...shown.heads.map(({ title }) => title), 'Time', 'Seeds'];
  return dom`<section class="panel rp-board"><h2>${shown.title}</h2>${table(heads, shown.rows.map(line))}</section>`;
}

/** @param {HTMLElement} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  /** @type {Set<string>} deselected tables */
  const without = new Set();
  let shown = '';
  /** @type {Record<string, Record<string, number>>} seconds of rows that miss a cell, by table and label */
  let costs = {};

  const base = () => `/api/report/${encodeURIComponent(studio.study || '')}`;
  /** @param {Answers.ReportBoard} report */
  const wanted = (report) => report.choices.tables.map((t) => t.name).filter((name) => !without.has(name));

  /** Asks whether to open the cases that a cell's detector scored, or the runs that made it. */
  async function open(/** @type {Answers.ReportSeed} */ { seed, fit, encoder }) {
    /** @type {Record<string, [string, string]>} */
    const ways = {
      cases: ['Scored cases', 'in Review, with heat maps and scores'],
      fit: ["The detector's run", 'in Training'],
      encoder: ["The encoder's run", 'in Training, with its curves'],
    };
    const way = fit && encoder ? await choose(`Seed ${seed}`, ways, 'cases', 'Open') : null;
    if (!fit || !encoder) return;
    if (way === 'cases') studio.openReadings(fit);
    else if (way) studio.openRun(way === 'fit' ? fit : encoder);
  }

  /** @param {Answers.ReportBoard} report */
  function going({ job, done, wanted: all }) {
    const busy = job !== null && GOING.includes(job.status);
    $('.rp-going').hidden = !busy;
    $('.make').disabled = busy || !all;
    $('.make').textContent = done < all ? `Make ${plural(all - done, 'missing cell')}` : 'Write report';
    if (!busy) return;
    $('.rp-going progress').value = job.progress;
    $('.rp-going p').textContent = WAITS[job.status] || job.message;
    $('.stop').onclick = () => orToast(api(`/api/status/stop/${job.id}`, {}).then(() => show(true)));
  }

  /** @param {Answers.ReportBoard} report */
  function files({ files: kinds, made }) {
    const link = (/** @type {string} */ kind) =>
      el('a', { href: `${base()}/file.${kind}`, target: '_blank', rel: 'noopener' }, FILES[kind]);
    const there = Object.keys(FILES).filter((kind) => kinds.includes(kind));
    fill($('.rp-files'), made && el('span', { class: 'dim' }, `Written ${moment(made)}`), there.map(link));
  }

  /** @param {Answers.ReportBoard} report */
  function chips(report) {
    const chip = (/** @type {{name: string, title: string}} */ { name, title }) => {
      const turn = () => {
        if (!without.delete(name)) without.add(name);
        orToast(show(true));
      };
      return action(title, turn, { 'aria-pressed': String(!without.has(name)) });
    };
    fill($('.rp-tables'), report.choices.tables.map(chip));
  }

  /** @param {Answers.ReportBoard} report @param {string} budget */
  function networks(report, budget) {
    const chosen = $('.network').value;
    const own = report.choices.networks.find((network) => network.budget === budget);
    const offered = report.choices.networks.filter((network) => network !== own);
    const named = offered.map(({ name, title }) => /** @type {const} */ ([name, title]));
    fill($('.network'), options([...(own ? [/** @type {const} */ (['', own.title])] : []), ...named]));
    $('.network').value = offered.some(({ name }) => name === chosen) ? chosen : '';
  }

  /** Shows the time needed, and starts the job after confirmation. @param {object} body */
  async function make(body) {
    const { cells, seconds: takes } = await api(`${base()}/time`, body);
    const text =
      `${plural(cells, 'cell')} to make: ${about(takes)}. They are trained one after another in the background. ` +
      'Finished cells are kept if you stop.';
    if (cells && !(await confirm(text, 'Start'))) return;
    await api(base(), body);
    await show(true);
  }

  const question = questions();
  async function show(force = false) {
    const { study } = studio;
    $('.make').disabled ||= !study;
    if (!study || !studio.shown(root)) return;
    const budget = $('.budget').value;
    /** @type {Record<string, string>} without a choice, the budget's default */
    const network = $('.network').value ? { network: $('.network').value } : {};
    const asked = { budget, ...network, seeds: $('.seeds').value || '1', protocol: $('.protocol').value };
    const newest = question();
    /** @type {Answers.ReportBoard} */
    const report = await api(`${base()}?${new URLSearchParams({ ...asked, roi: $('.roi').value })}`);
    if (study !== studio.study || !newest()) return;
    const text = JSON.stringify([report, study, [...without]]);
    if (text === shown && !force) return;
    shown = text;
    const some = report.tables.filter((t) => !without.has(t.name));
    const cells = some.flatMap((t) => t.rows).flatMap((r) => r.seeds);
    chips(report);
    networks(report, budget);
    files(report);
    const { dataset, own } = report.beside;
    $('.rp-network').textContent = `${report.network} * Without ImageNet weights.`;
    $('.rp-beside').textContent = `Grey: published in the paper, on ${dataset}${own ? '' : ' (other images)'}.`;
    going({ ...report, wanted: cells.length, done: cells.filter((c) => c.fit).length });
    const body = { ...asked, seeds: Number(asked.seeds), tables: wanted(report) };
    $('.make').onclick = () => orToast(make(body));
    const opened = (/** @type {Answers.ReportSeed} */ seed) => orToast(open(seed));
    const draw = (/** @type {Record<string, Record<string, number>>} */ costs) => {
      fill(
        $('.rp-boards'),
        some.map((one) => board(one, opened, costs[one.name] || {})),
      );
    };
    draw(costs);
    if (administers.peek() === false || !$('.rp-going').hidden) return;
    ({ rows: costs } = await api(`${base()}/time`, body));
    if (study === studio.study && newest()) draw(costs);
  }

  for (const name of ['budget', 'network', 'seeds', 'protocol', 'roi'])
    $(`.${name}`).onchange = () => orToast(show(true));
  studio.on('back', () => orToast(show()));
  const anew = () => {
    shown = '';
    fill($('.rp-boards'), el('p', { class: 'dim' }, studio.study ? 'Loading the tables…' : 'Choose a study.'));
    fill($('.rp-files'));
    $('.rp-going').hidden = true;
    orToast(show(true));
  };
  for (const event of ['started', 'study']) studio.on(event, anew);
  studio.on('tab', (tab) => tab === 'report' && orToast(show(true)));
  studio.on('status', () => $('.rp-going').hidden || show().catch(console.debug));
  administers.subscribe((may) => {
    $('.make').hidden = may === false;
  });
  new ResizeObserver(() => !shown && orToast(show())).observe(root);
}
