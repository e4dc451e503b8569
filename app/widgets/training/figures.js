// Names, figures and tables shared by the boards of a run.
import { el, matrix } from '../../static/dom.js';
import { fixed } from '../../static/format.js';
import { dom } from '../../static/view.js';

/** @typedef {[name: string, value: string | number | null | undefined]} Pair */

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

/** The figures of an evaluation by name; null without any. @param {Answers.Evaluation} evaluation @returns {Pair[]} */
export const figuresOf = (evaluation) => [
  ['test cases', evaluation.cases],
  ['lesion masks', evaluation.masks === 'readers' ? 'readers’' : evaluation.masks],
  ...FIGURES.map(
    ([key, name]) => /** @type {Pair} */ ([name, evaluation[key] == null ? null : fixed(evaluation[key])]),
  ),
];

/** Shows two columns of names and values; pairs without a value are skipped. @param {Pair[]} pairs */
export function table(pairs) {
  const known = pairs.filter(([, value]) => value != null && value !== '');
  return dom`<div class="speed">${known.map(([name, value]) => dom`<span class="dim">${name}</span><span>${value}</span>`)}</div>`;
}

/** Builds a titled block of a board. @param {string} title @param {string} name */
export function block(title, name) {
  const inside = el('div', { class: 'in' });
  return { element: el('div', { class: `block ${name}` }, el('b', {}, title), inside), inside };
}

/** Shows the confusion matrix. @param {{step: number, rows: (number | null)[][]}} confusion */
export const confusionTable = ({ step, rows }) =>
  matrix(rows, '', String, `Step ${step}: rows are the true class, columns the predicted one`);
