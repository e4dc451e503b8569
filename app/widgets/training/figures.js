// Names, figures and charts shared by the boards of a run and the comparison.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { Chart } from '../../static/chart.js';
import { fixed } from '../../static/format.js';
import { html } from '../../static/view.js';

/** @type {[Exclude<keyof Answers.Evaluation, 'protocol' | 'roi' | 'cases' | 'masks' | 'set'>, string][]} */
const FIGURES = [
  ['auroc', 'AUROC'],
  ['ap', 'AP'],
  ['sensitivity', 'sensitivity'],
  ['specificity', 'specificity'],
  ['pixel_auroc', 'pixel AUROC'],
  ['dice', 'Dice'],
  ['pro', 'PRO'],
  ['pro_all', 'PRO, all images'],
];

/** @type {Record<string, string>} */
export const METRICS = {
  loss: 'Total loss',
  l_ctr: 'Centring loss',
  l_con: 'Contrastive loss',
  l_con_constant: 'Contrastive loss of a constant feature',
  l_aug: 'Class loss',
  l_pos: 'Position loss',
  l_var: 'Variance loss',
  accuracy: 'Class accuracy',
  aug_accuracy: 'Class accuracy',
  spread: 'Feature spread',
  class_distance: 'Distance between classes',
  lr: 'Learning rate',
  images_per_second: 'Views per second',
  auroc: 'AUROC',
};

/** Returns a metric in words. @param {string} key @returns {string} */
export function metricName(key) {
  const [, held, centre] = key.match(/^(?:val_(.+)|centre_distance_(\d+))$/) || [];
  if (held) return `${metricName(held)}, held out`;
  return centre ? `Distance to centre ${centre}` : METRICS[key] || key.replaceAll('_', ' ');
}

/** The figures of an evaluation by name; null without any. @param {Answers.Evaluation} evaluation */
export const figuresOf = (evaluation) => [
  ['test cases', evaluation.cases],
  ['lesion masks', evaluation.masks === 'readers' ? 'readers’' : evaluation.masks],
  ...FIGURES.map(([key, name]) => [name, evaluation[key] == null ? null : fixed(evaluation[key])]),
];

/** Shows names and values. @param {unknown[][]} pairs */
export const pairs = (pairs) =>
  pairs.map(([name, value]) => html`<span class="dim">${name}</span><span>${String(value)}</span>`);

/** A chart as a view. @param {{title: string, lines: Page.Line[], low?: number, high?: number,
 * levels?: {at: number, label: string}[]}} props levels: drawn across the chart */
export function Curves({ title, lines, low, high, levels = [] }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useMemo(() => new Chart({ title, low, high }), []);
  useEffect(() => place.current?.append(chart.element), []);
  useEffect(() => {
    chart.options.lines = levels;
    chart.put(lines);
  });
  return html`<div class="curves" ref=${place} />`;
}
