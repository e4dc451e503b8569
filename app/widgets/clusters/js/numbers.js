// The numbers next to a map, computed in the original feature space, with their curves over the epochs.
import { Chart } from '../../../static/chart.js';
import { action, el, finder } from '../../../static/dom.js';
import { fixed } from '../../../static/format.js';
import { dom } from '../../../static/view.js';

/** @typedef {[key: string, title: string, digits: number, help: string, range: [number, number] | null]} Row */

/** @type {Row[]} */
const ROWS = [
  ['silhouette', 'Silhouette', 2, '-1 to 1; larger: classes further apart', [-0.2, 1]],
  ['davies_bouldin', 'Davies-Bouldin', 2, '0 and up; smaller: classes further apart', null],
  ['knn_purity', 'Neighbour purity', 2, 'share of the 10 nearest neighbours that have the same class', [0, 1]],
  [
    'lesion_side',
    'On the lesion side',
    2,
    'share of real lesions nearer to A\u2081 to A\u2096 than to A\u2080; after the slash, of normal test images',
    [0, 1],
  ],
  ['between_within', 'Between / within', 2, 'distance between class means / distance to the class mean', null],
];

/** @type {Row} */
const TRUSTWORTHINESS = [
  'trustworthiness',
  'Trustworthiness',
  2,
  '1 if neighbours on the map are also neighbours in feature space',
  [0.5, 1],
];
/** The reference value shown next to a number. @type {Record<string, [key: string, title: string, short: string]>} */
const BESIDE = {
  knn_purity: ['knn_chance', 'Chance level', 'chance'],
  lesion_side: ['lesion_side_normal', 'Share of normal test images', 'normal'],
};
/** @param {(number | null)[]} course */
const finite = (course) => course.flatMap((v) => (v == null || !Number.isFinite(v) ? [] : [v]));

export class Numbers {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.kind = 'classes'; // the group of numbers shown
    /** @type {string | null} the row whose course over the epochs is open */
    this.open = null;
    this.chart = new Chart({ title: '' });
    /** @type {import('./pane.js').Pane} */
    this.pane = /** @type {any} */ (null);
  }

  /** @param {import('./pane.js').Pane} pane */
  render(pane) {
    this.root.hidden = !pane?.map;
    if (!pane?.map) return;
    this.pane = pane;
    const { epochs } = pane.map.about;
    const at = pane.epochIndex;
    const kinds = Object.keys(epochs[at].numbers);
    if (!kinds.includes(this.kind)) this.kind = kinds[0];
    /** @type {Record<string, string>} */
    const titles = { classes: 'A\u2080 to A\u2096', lesions: 'Normal, abnormal' };
    const values = epochs[at].numbers[this.kind] || {};
    const tab = (/** @type {string} */ kind) => {
      const show = () => {
        this.kind = kind;
        this.render(pane);
      };
      return action(titles[kind], show, { class: 'small', 'aria-pressed': String(kind === this.kind) });
    };
    const rows = ROWS.filter(([key]) => values[key] != null).map((row) => {
      const key = row[0];
      const course = epochs.map((e) => e.numbers[this.kind]?.[key]);
      return this.row(row, values[key], course, at, BESIDE[key] && values[BESIDE[key][0]]);
    });
    const trust = epochs.map((e) => e.trustworthiness);
    const map = this.row(TRUSTWORTHINESS, epochs[at].trustworthiness, trust, at);
    const warning = (/** @type {string} */ text) => el('p', { class: 'warning' }, text);
    const title = 'Measured in the original feature space, not on the map';
    const parts = dom`<h2 title=${title}>Classes, in feature space</h2>
      <div class="group which-classes">${kinds.map(tab)}</div>
      <table><tbody>${rows}${map}</tbody></table>
      ${(values.warnings || []).map(warning)}`;
    this.root.replaceChildren(...parts.flat());
  }

  // One number; over several epochs a row that opens its curve.
  /** @param {Row} row @param {number | null} value @param {(number | null)[]} course @param {number} at
   * @param {number | null} [chance] */
  row([key, title, digits, help, range], value, course, at, chance) {
    const [, beside = '', short = ''] = BESIDE[key] || [];
    const aside = chance != null && el('span', { class: 'dim chance', title: beside }, ` / ${chance.toFixed(2)}`);
    const several = course.length > 1;
    const open = several && this.open === key;
    const turn = () => {
      this.open = open ? null : key;
      this.render(this.pane);
      finder(this.root)(`[data-row=${key}]`).focus();
    };
    const look = { 'data-row': key, 'aria-expanded': String(open), 'aria-label': `${title} over the epochs` };
    return dom`<tr title=${help}>
        <th>${several ? action(title, turn, { class: 'course-turn', ...look }) : title}</th>
        <td class="num">${fixed(value, digits)}${aside}</td>
        <td class="curve">${several && this.curve(course, at, range)}</td>
      </tr>
      ${open && dom`<tr class="course"><td colspan="3">${this.course(title, course, chance, short)}</td></tr>`}`;
  }

  // The curve at a readable size; one chart serves all rows.
  /** @param {string} title @param {(number | null)[]} course @param {number | null} [chance] @param {string} [short]
   * names it */
  course(title, course, chance, short = '') {
    const { epochs } = this.pane.map.about;
    this.chart.rename(`${title} over the epochs`);
    this.chart.options.lines = chance == null ? [] : [{ at: chance, label: short }];
    this.chart.put([{ name: '', points: course.map((v, i) => [epochs[i].epoch, v]), thick: true }]);
    return this.chart.element;
  }

  // A small curve, with the current epoch marked.
  /** @param {(number | null)[]} course @param {number} at @param {[number, number] | null} range */
  curve(course, at, range) {
    const [w, h] = [74, 22];
    const known = finite(course);
    let [low, high] = range || [0, Math.max(...known)];
    low = Math.min(low, ...known);
    high = Math.max(high, ...known, low + 1e-9);
    const x = (/** @type {number} */ i) => 3 + (i / (course.length - 1)) * (w - 6);
    const y = (/** @type {number} */ v) => h - 3 - ((v - low) / (high - low)) * (h - 6);
    const line = course.flatMap((v, i) => (v == null ? [] : `${x(i).toFixed(1)},${y(v).toFixed(1)}`)).join(' ');
    return dom`<svg width=${w} height=${h} viewBox="0 0 ${w} ${h}" aria-hidden="true">
      <polyline points=${line} fill="none" stroke="var(--accent)" stroke-width="1.5" />
      ${course[at] != null && el('circle', { cx: x(at), cy: y(course[at]), r: 2.8, fill: 'var(--text)' })}
    </svg>`;
  }
}
