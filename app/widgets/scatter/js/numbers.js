// The honest numbers beside a map, in the original feature space, with their course over the epochs.
const ROWS = [
  ['silhouette', 'Silhouette', 2, '-1 to 1; larger: classes further apart', [-0.2, 1]],
  ['davies_bouldin', 'Davies-Bouldin', 2, '0 and up; smaller: classes further apart', null],
  ['knn_purity', 'Neighbour purity', 2, 'share of the 10 nearest that are of the same class', [0, 1]],
  ['between_within', 'Between / within', 2, 'distance between class means over distance to the own mean', null],
];

export class Numbers {
  constructor(root, studio) {
    Object.assign(this, { root, studio, kind: 'classes' });
  }

  render(pane) {
    const { el } = this.studio;
    this.root.hidden = !pane?.map;
    if (!pane?.map) return;
    const { epochs } = pane.map.about;
    const at = pane.epochIndex;
    const kinds = Object.keys(epochs[at].numbers);
    if (!kinds.includes(this.kind)) this.kind = kinds[0];
    const titles = { classes: 'A\u2080 to A\u2096', lesions: 'Normal, abnormal', patches: 'Lesion patches' };
    const values = epochs[at].numbers[this.kind] || {};
    const tabs = kinds.map((k) => el('button', { class: 'small', 'aria-pressed': String(k === this.kind), onclick: () => { this.kind = k; this.render(pane); } }, titles[k]));
    const trusted = epochs[at].trustworthiness;
    const rows = ROWS.filter(([key]) => values[key] != null).map(([key, title, digits, help, range]) => {
      const chance = key === 'knn_purity' ? values.knn_chance : null;
      return this.row(title, values[key], digits, help, epochs.map((e) => e.numbers[this.kind]?.[key]), at, range, chance);
    });
    const trust = this.row('Trustworthiness', trusted, 2, 'of the map: 1 when neighbours on it are neighbours in the features', epochs.map((e) => e.trustworthiness), at, [0.5, 1]);
    const warnings = (values.warnings || []).map((text) => el('p', { class: 'warning' }, text));
    this.root.replaceChildren(
      el('h2', { title: 'Measured in the original feature space, not on the map' }, 'Classes, in feature space'),
      el('div', { class: 'group which-classes' }, tabs),
      el('table', {}, el('tbody', {}, ...rows, trust)),
      ...warnings,
    );
  }

  row(title, value, digits, help, course, at, range, chance) {
    const { el } = this.studio;
    const shown = value == null || !Number.isFinite(value) ? '\u2013' : value.toFixed(digits);
    const aside = chance != null ? el('span', { class: 'dim chance', title: 'What chance gives' }, ` / ${chance.toFixed(2)}`) : null;
    return el('tr', { title: help }, el('th', {}, title), el('td', { class: 'num' }, shown, aside), el('td', { class: 'curve' }, course.length > 1 ? this.curve(course, at, range) : null));
  }

  // A curve over epochs, with the epoch that is shown.
  curve(course, at, range) {
    const { el } = this.studio;
    const [w, h] = [74, 22];
    const known = course.filter((v) => v != null);
    let [low, high] = range || [0, Math.max(...known)];
    low = Math.min(low, ...known);
    high = Math.max(high, ...known, low + 1e-9);
    const x = (i) => 3 + (i / (course.length - 1)) * (w - 6);
    const y = (v) => h - 3 - ((v - low) / (high - low)) * (h - 6);
    const line = course.map((v, i) => (v == null ? null : `${x(i).toFixed(1)},${y(v).toFixed(1)}`)).filter(Boolean).join(' ');
    return el('svg', { width: w, height: h, viewBox: `0 0 ${w} ${h}`, 'aria-hidden': 'true' },
      el('polyline', { points: line, fill: 'none', stroke: '#7cc4d4', 'stroke-width': 1.5 }),
      course[at] != null && el('circle', { cx: x(at), cy: y(course[at]), r: 2.8, fill: '#fff' }));
  }
}
