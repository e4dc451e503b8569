// What a fit of a detector has to show: its own losses as they fall, the score rule that it chose, what came of it.
import { Chart, COLOURS } from '/page/static/chart.js';

const LOSS = /^(loss|l_|generator|critic|classifier|reconstruction)/;
const SILENT = /^(step|steps|epoch|stage|seen)$/;
const NUMBERS = [['auroc', 'AUROC'], ['ap', 'AP'], ['sensitivity', 'sensitivity'], ['specificity', 'specificity'], ['pixel_auroc', 'pixel AUROC'], ['dice', 'Dice'], ['pro', 'PRO']];

export class FitBoard {
  constructor(studio) {
    const { el } = studio;
    this.studio = studio;
    this.charts = { losses: new Chart({ title: 'Losses of the fit' }), rate: new Chart({ title: 'Learning rate', low: 0 }), rest: new Chart({ title: 'While fitting', low: 0 }) };
    const block = (title, name) => {
      this[name] = el('div', { class: 'in' });
      this[`${name}Block`] = el('div', { class: `block ${name}` }, el('b', {}, title), this[name]);
      return this[`${name}Block`];
    };
    this.element = el('div', { class: 'board of-fit', hidden: true }, this.charts.losses.element, this.charts.rate.element, this.charts.rest.element,
      block('The fit', 'fitted'), block('Score rule, by AUROC on synthetic lesions', 'rule'), block('On the test images', 'result'));
  }

  clear() {
    for (const chart of Object.values(this.charts)) chart.put([]);
  }

  paint(data, series) {
    const names = Object.keys(series).filter((n) => !SILENT.test(n) && series[n].length > 1);
    const lines = (wanted) => wanted.map((name, i) => ({ name: name === 'loss' ? 'total' : name, points: series[name], colour: COLOURS[i % COLOURS.length], thick: name === 'loss' }));
    const losses = names.filter((n) => LOSS.test(n));
    const rate = names.filter((n) => n === 'lr');
    const rest = names.filter((n) => !losses.includes(n) && n !== 'lr');
    for (const [chart, wanted] of [[this.charts.losses, losses], [this.charts.rate, rate], [this.charts.rest, rest]]) {
      chart.element.hidden = !wanted.length;
      chart.put(lines(wanted));
    }
    this.#fitted(data, series);
    this.#rule(data.run.summary.rule);
    const e = data.evaluation;
    this.resultBlock.hidden = !e;
    if (e) this.#pairs(this.result, NUMBERS.map(([key, name]) => [name, e[key] == null ? null : e[key].toFixed(3)]));
  }

  #pairs(box, pairs) {
    const { el } = this.studio;
    box.replaceChildren(el('div', { class: 'speed' }, pairs.filter(([, v]) => v != null && v !== '').flatMap(([name, v]) => [el('span', { class: 'dim' }, name), el('span', {}, String(v))])));
  }

  #fitted({ run, job }, series) {
    const at = Math.max(-1, ...Object.values(series).map((points) => points.at(-1)?.[0] ?? -1));
    const left = job && job.here && job.status === 'running' ? job.message : '';
    const { images, scored, score_seconds: seconds } = run.summary;
    this.#pairs(this.fitted, [['at work', left], ['steps', at < 0 ? null : at], ['training images', images], ['cases scored', scored],
      ['seconds to score them', seconds == null ? null : seconds.toFixed(1)], ['threshold, held-out normals', run.summary.threshold_roi?.toFixed(4)]]);
  }

  // Chosen on normal images and lesions of kinds not trained on; AUROC there, never on test images.
  #rule(rule) {
    const { el } = this.studio;
    this.ruleBlock.hidden = !rule;
    if (!rule) return;
    const found = Object.entries(rule.auroc || {}).sort((a, b) => b[1] - a[1]).slice(0, 6);
    const line = (name, v) => [el('span', { class: name === rule.name ? '' : 'dim', style: name === rule.name ? 'font-weight:600' : null }, name), el('span', {}, v == null ? 'chosen' : v.toFixed(3))];
    this.rule.replaceChildren(el('div', { class: 'speed', title: 'AUROC on synthetic lesions in normal images that were held back' },
      found.some(([name]) => name === rule.name) ? [] : line(rule.name, rule.auroc?.[rule.name]), found.flatMap(([name, v]) => line(name, v))));
  }
}
