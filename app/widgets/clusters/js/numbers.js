// The numbers beside a map, in the original feature space, with their course over the epochs.
import { action, el, finder } from '../../../static/dom.js';
import { fixed } from '../../../static/format.js';

/** @typedef {[key: string, title: string, digits: number, help: string, range: [number, number] | null]} Row */

/** @type {Row[]} */
const ROWS = [
  ['silhouette', 'Silhouette', 2, '-1 to 1; larger: classes further apart', [-0.2, 1]],
  ['davies_bouldin', 'Davies-Bouldin', 2, '0 and up; smaller: classes further apart', null],
  ['knn_purity', 'Neighbour purity', 2, 'share of the 10 nearest that are of the same class', [0, 1]],
  [
    'lesion_side',
    'On the lesion side',
    2,
    'share of real lesions that lie nearer to A\u2081 to A\u2096 than to A\u2080; beside it, of normal test images',
    [0, 1],
  ],
  ['between_within', 'Between / within', 2, 'distance between class means over distance to the own mean', null],
];

/** @type {Row} */
const TRUSTWORTHINESS = [
  'trustworthiness',
  'Trustworthiness',
  2,
  'of the map: 1 when neighbours on it are neighbours in the features',
  [0.5, 1],
];
/** What stands beside a number. @type {Record<string, [key: string, title: string, short: string]>} */
const BESIDE = {
  knn_purity: ['knn_chance', 'What chance gives', 'chance'],
  lesion_side: ['lesion_side_normal', 'Of normal test images', 'normal'],
};
/** @param {(number | null)[]} course */
const finite = (course) => course.flatMap((v) => (v == null || !Number.isFinite(v) ? [] : [v]));

export class Numbers {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.kind = 'classes'; // which of the map's numbers are shown
    /** @type {string | null} the row whose course over the epochs is open */
    this.open = null;
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
    const tabs = kinds.map((k) =>
      action(
        titles[k],
        () => {
          this.kind = k;
          this.render(pane);
        },
        { class: 'small', 'aria-pressed': String(k === this.kind) },
      ),
    );
    const rows = ROWS.filter(([key]) => values[key] != null).flatMap((row) => {
      const key = row[0];
      return this.row(
        row,
        values[key],
        epochs.map((e) => e.numbers[this.kind]?.[key]),
        at,
        BESIDE[key] ? values[BESIDE[key][0]] : null,
      );
    });
    const map = this.row(
      TRUSTWORTHINESS,
      epochs[at].trustworthiness,
      epochs.map((e) => e.trustworthiness),
      at,
    );
    const warnings = (values.warnings || []).map((/** @type {string} */ text) => el('p', { class: 'warning' }, text));
    this.root.replaceChildren(
      el('h2', { title: 'Measured in the original feature space, not on the map' }, 'Classes, in feature space'),
      el('div', { class: 'group which-classes' }, tabs),
      el('table', {}, el('tbody', {}, ...rows, ...map)),
      ...warnings,
    );
  }

  // One number; over several epochs a row that opens its curve.
  /** @param {Row} row @param {number | null} value @param {(number | null)[]} course @param {number} at
   * @param {number | null} [chance] */
  row([key, title, digits, help, range], value, course, at, chance) {
    const aside =
      chance != null ? el('span', { class: 'dim chance', title: BESIDE[key][1] }, ` / ${chance.toFixed(2)}`) : null;
    const cells = [el('th', {}, title), el('td', { class: 'num' }, fixed(value, digits), aside)];
    if (course.length < 2) return [el('tr', { title: help }, ...cells, el('td', { class: 'curve' }))];
    const open = this.open === key;
    const turn = () => {
      this.open = open ? null : key;
      this.render(this.pane);
      finder(this.root)(`tr[data-row=${key}]`).focus();
    };
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        turn();
      }
    };
    const head = el(
      'tr',
      {
        class: 'over-epochs',
        'data-row': key,
        tabindex: 0,
        role: 'button',
        'aria-expanded': String(open),
        'aria-label': `${title} over the epochs`,
        title: help,
        onclick: turn,
        onkeydown: keys,
      },
      ...cells,
      el('td', { class: 'curve' }, this.curve(course, at, range)),
    );
    return open
      ? [
          head,
          el(
            'tr',
            { class: 'course' },
            el('td', { colspan: 3 }, this.course(course, at, digits, chance, BESIDE[key]?.[2])),
          ),
        ]
      : [head];
  }

  // The curve at a size at which it can be read: values on the left, epochs below; a click on one goes there.
  /** @param {(number | null)[]} course @param {number} at @param {number} digits @param {number | null} [chance]
   * @param {string} [short] names it */
  course(course, at, digits, chance, short) {
    const { epochs } = this.pane.map.about;
    const [w, h, l, r, t, b] = [268, 128, 38, 10, 16, 20];
    const known = finite(course);
    let [low, high] = [Math.min(...known, chance ?? Infinity), Math.max(...known, chance ?? -Infinity)];
    const margin = Math.max((high - low) * 0.12, 0.5 * 10 ** -digits);
    [low, high] = [low - margin, high + margin];
    const x = (/** @type {number} */ i) =>
      l + ((epochs[i].epoch - epochs[0].epoch) / (epochs[epochs.length - 1].epoch - epochs[0].epoch)) * (w - l - r);
    const y = (/** @type {number} */ v) => h - b - ((v - low) / (high - low)) * (h - t - b);
    /** @param {number} at @param {number} to @param {string} anchor @param {string} what */
    const text = (at, to, anchor, what, kind = '') =>
      el('text', { x: at, y: to, 'text-anchor': anchor, class: kind }, what);
    const line = (/** @type {number} */ v, /** @type {object} */ more) =>
      el('line', { x1: l, x2: w - r, y1: y(v), y2: y(v), ...more });
    const levels = [Math.min(...known), Math.max(...known)];
    const apart = y(levels[0]) - y(levels[1]) > 13;
    const shown = apart ? levels : [levels[1]];
    const places = course.flatMap((v, i) => (v == null || !Number.isFinite(v) ? [] : [{ i, v }]));
    return el(
      'svg',
      {
        width: w,
        height: h,
        viewBox: `0 0 ${w} ${h}`,
        role: 'img',
        'aria-label': `From ${fixed(course[0], digits)} to ${fixed(course.at(-1), digits)}`,
      },
      ...shown.flatMap((v) => [line(v, { stroke: 'var(--line)' }), text(l - 5, y(v) + 4, 'end', fixed(v, digits))]),
      ...(chance == null
        ? []
        : [
            line(chance, { stroke: 'var(--dim)', 'stroke-dasharray': '3 4' }),
            text(w - r, y(chance) - 4, 'end', short ?? ''),
          ]),
      text(l, h - 5, 'start', `epoch ${epochs[0].epoch}`),
      text(w - r, h - 5, 'end', String(epochs[epochs.length - 1].epoch)),
      el('polyline', {
        points: places.map(({ i, v }) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(' '),
        fill: 'none',
        stroke: 'var(--accent)',
        'stroke-width': 1.8,
      }),
      ...places.map(({ i, v }) =>
        el('circle', {
          cx: x(i),
          cy: y(v),
          r: i === at ? 4.5 : 3,
          fill: i === at ? 'var(--text)' : 'var(--accent)',
          'data-epoch': epochs[i].epoch,
          onclick: () => this.pane.seek(i),
        }),
      ),
      course[at] != null &&
        text(
          Math.min(Math.max(x(at), l + 12), w - r - 12),
          Math.max(y(course[at]) - 8, 11),
          'middle',
          fixed(course[at], digits),
          'now',
        ),
    );
  }

  // Its course at a glance, with the epoch that is shown.
  /** @param {(number | null)[]} course @param {number} at @param {[number, number] | null} range */
  curve(course, at, range) {
    const [w, h] = [74, 22];
    const known = finite(course);
    let [low, high] = range || [0, Math.max(...known)];
    low = Math.min(low, ...known);
    high = Math.max(high, ...known, low + 1e-9);
    const x = (/** @type {number} */ i) => 3 + (i / (course.length - 1)) * (w - 6);
    const y = (/** @type {number} */ v) => h - 3 - ((v - low) / (high - low)) * (h - 6);
    const line = course
      .map((v, i) => (v == null ? null : `${x(i).toFixed(1)},${y(v).toFixed(1)}`))
      .filter(Boolean)
      .join(' ');
    return el(
      'svg',
      { width: w, height: h, viewBox: `0 0 ${w} ${h}`, 'aria-hidden': 'true' },
      el('polyline', { points: line, fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.5 }),
      course[at] != null && el('circle', { cx: x(at), cy: y(course[at]), r: 2.8, fill: 'var(--text)' }),
    );
  }
}
