// Results of one run of the study: figures come from the server, drawings are SVG.

const share = (w) => (w.value === null ? '–' : `${(100 * w.value).toFixed(1)} %`);
const range = (w) => (w.value === null ? '' : `${(100 * w.low).toFixed(1)} to ${(100 * w.high).toFixed(1)}, ${w.hits} of ${w.n}`);
const kappa = (k) => (!k || k.kappa === null ? '–' : `${k.kappa.toFixed(2)}${k.low === null ? '' : ` (${k.low.toFixed(2)} to ${k.high.toFixed(2)})`}`);

export async function mount(root, studio) {
  const page = root.querySelector('.rs-page');
  const { el } = studio;
  let asked = null;
  let run = '';

  function roc(point) {
    const at = ([x, y]) => [36 + 250 * x, 264 - 250 * y];
    const line = (d, stroke, extra = {}) => el('path', { d, fill: 'none', stroke, 'stroke-width': 2, ...extra });
    const parts = [el('rect', { x: 36, y: 14, width: 250, height: 250, fill: 'none', stroke: 'var(--line)' }),
      line('M36 264 L286 14', 'var(--line)', { 'stroke-dasharray': '3 4' })];
    for (const t of [0, 0.5, 1]) {
      parts.push(el('text', { x: 36 + 250 * t, y: 280, 'text-anchor': 'middle' }, String(t)), el('text', { x: 30, y: 268 - 250 * t, 'text-anchor': 'end' }, String(t)));
    }
    parts.push(el('text', { x: 161, y: 298, 'text-anchor': 'middle' }, '1 − specificity'), el('text', { x: 10, y: 90, 'text-anchor': 'middle', transform: 'rotate(-90 10 90)' }, 'sensitivity'));
    if (point.roc) {
      parts.push(line(point.roc.map((p, i) => `${i ? 'L' : 'M'}${at(p).join(' ')}`).join(' '), 'var(--accent)'));
      const [x, y] = at(point.point);
      parts.push(el('circle', { cx: x, cy: y, r: 5.5, fill: 'var(--warn)', stroke: '#000' }));
    } else parts.push(el('text', { x: 161, y: 139, 'text-anchor': 'middle' }, 'needs normal and abnormal cases'));
    return el('svg', { viewBox: '0 0 300 300', role: 'img', 'aria-label': 'ROC with the operating point' }, parts);
  }

  function figures(title, p) {
    const row = (name, w) => el('tr', {}, el('td', {}, name), el('td', { class: 'num' }, share(w)), el('td', { class: 'num dim' }, range(w)));
    return el('div', {}, el('h3', {}, title), el('table', {}, row('Sensitivity', p.sensitivity), row('Specificity', p.specificity), row('PPV', p.ppv), row('NPV', p.npv)));
  }

  function promise(p) {
    if (!p) return '';
    const percent = (x) => `${(100 * x).toFixed(1)} %`;
    const seen = p.threshold !== null && p.normals ? `On the normal images of this test: ${p.flagged} of ${p.normals} flagged, ${percent(p.share.value)} (95 % interval ${percent(p.share.low)} to ${percent(p.share.high)}).` : '';
    return el('div', { class: 'rs-promise' }, el('h2', {}, 'A threshold with a promise'),
      el('p', {}, p.guarantee), el('p', { class: 'dim num' }, p.threshold === null ? '' : `Threshold ${p.threshold.toFixed(3)}. ${seen}`));
  }

  function agreement(a) {
    if (!a.pairs.length) return el('p', { class: 'dim' }, 'Two readers who have read the same cases are compared here.');
    const rows = a.pairs.map((p) => el('tr', {}, el('td', {}, p.readers.join(' and ')), el('td', { class: 'num' }, kappa(p)), el('td', { class: 'num' }, `${(100 * p.agreement).toFixed(0)} %`), el('td', { class: 'num' }, String(p.n)),
      el('td', { class: 'num dim', title: 'rows: the first reader; columns: the second' }, p.confusion.map((r) => r.join(' ')).join(' / '))));
    const all = a.fleiss ? el('p', { class: 'num' }, `All ${a.fleiss.readers} readers: Fleiss’ κ ${kappa(a.fleiss)} on ${a.fleiss.n} cases`) : null;
    const differ = a.differ.slice(0, 30).map((d) => el('tr', {}, el('td', {}, open(d.case, d.name)),
      el('td', {}, Object.entries(d.decisions).map(([r, w]) => `${r}: ${w}`).join(', ')), el('td', {}, d.adjudication ? `${d.adjudication.reader} settled: ${d.adjudication.decision}` : 'open')));
    return el('div', {}, el('table', {}, el('tr', {}, ['Readers', 'Cohen’s κ (95 %)', 'same', 'cases', 'confusion N A U'].map((t) => el('th', {}, t))), rows), all,
      el('details', {}, el('summary', {}, `${a.differ.length} cases on which readers differ`), el('table', {}, differ)));
  }

  function open(id, name) {
    return el('button', { onclick: () => { studio.address({ case: id }); studio.openTab('review'); studio.emit('case', id); } }, name);
  }

  function minds(m) {
    const rows = Object.entries(m).map(([reader, v]) => el('tr', {}, el('td', {}, reader), [v.both, v.to_abnormal, v.to_normal, v.to_unsure, v.for_better, v.for_worse].map((n) => el('td', { class: 'num' }, String(n)))));
    if (!rows.length) return el('p', { class: 'dim' }, 'Second decisions of a blind study are compared with the first ones here.');
    return el('table', {}, el('tr', {}, ['Reader', 'read twice', 'to abnormal', 'to normal', 'to unsure', 'for the better', 'for the worse'].map((t) => el('th', {}, t))), rows);
  }

  function compared(rows, now) {
    const figure = (r, m) => (r[m] === null ? '–' : r[m].toFixed(3));
    const cell = (r, m) => el('td', { class: `num${r.best.includes(m) ? ' rs-best' : ''}`, title: r[`${m}_ci`] ? `95 % interval ${r[`${m}_ci`].map((v) => v.toFixed(3)).join(' to ')}` : null }, figure(r, m));
    const name = (r) => (r.run ? el('button', { 'aria-pressed': String(r.run === now), title: 'Show its results', onclick: () => { run = r.run; show(true); } }, r.title) : r.title);
    const lines = rows.map((r) => el('tr', { 'data-run': r.run || 'baseline' }, el('td', {}, name(r)), el('td', { class: 'dim' }, r.encoder ? `${r.name} on ${r.encoder}` : r.name),
      cell(r, 'auroc'), el('td', { class: 'num dim' }, r.auroc_ci ? r.auroc_ci.map((v) => v.toFixed(2)).join(' to ') : ''), cell(r, 'pixel_auroc'), cell(r, 'dice'), cell(r, 'pro')));
    return el('div', { class: 'rs-compared' }, el('table', {}, el('tr', {}, ['Detector', 'Run', 'image AUROC', '95 %', 'pixel AUROC', 'Dice', 'PRO'].map((t) => el('th', {}, t))), lines));
  }

  function sizes(s) {
    if (!s.points.length) return el('p', { class: 'dim' }, 'No case has both a lesion mask and a heat map.');
    const x = (v) => 34 + 250 * Math.sqrt(v / Math.max(...s.points.map((p) => p.size)));
    const dots = s.points.map((p) => el('circle', { cx: x(p.size), cy: 144 - 130 * p.dice, r: 3, fill: 'var(--accent)', 'fill-opacity': 0.7 }, el('title', {}, `${p.name}: Dice ${p.dice.toFixed(2)}`)));
    const rows = s.groups.map((g) => el('tr', {}, el('td', { class: 'num' }, `${(100 * g.from).toFixed(2)} to ${(100 * g.to).toFixed(2)} %`), el('td', { class: 'num' }, `${g.dice.toFixed(3)} ± ${g.sd.toFixed(3)}`), el('td', { class: 'num' }, String(g.n))));
    return el('div', { class: 'rs-two rs-plot' }, el('svg', { viewBox: '0 0 300 170' }, el('rect', { x: 34, y: 14, width: 256, height: 130, fill: 'none', stroke: 'var(--line)' }), dots,
      el('text', { x: 28, y: 20, 'text-anchor': 'end' }, '1'), el('text', { x: 28, y: 148, 'text-anchor': 'end' }, '0'), el('text', { x: 162, y: 162, 'text-anchor': 'middle' }, 'lesion’s share of the image, root scale')),
    el('table', {}, el('tr', {}, ['Lesion size', 'Dice, mean ± sd', 'cases'].map((t) => el('th', {}, t))), rows));
  }

  function panel(cases) {
    return el('div', { class: 'rs-panel' }, cases.map((c) => el('button', { class: `rs-case ${c.right ? 'right' : 'wrong'}`, title: `${c.name}: ${c.label}, ${c.flagged ? 'flagged' : 'not flagged'}`, onclick: () => { studio.address({ case: c.id }); studio.openTab('review'); studio.emit('case', c.id); } },
      el('img', { src: `/api/case/${c.id}/thumb.png?size=200`, alt: '', loading: 'lazy' }), el('span', { class: 'num' }, `${c.score.toFixed(3)} · ${c.percentile.toFixed(0)} %`), el('span', { class: 'dim' }, `${c.right ? '✓' : '✗'} ${c.label}`))));
  }

  async function show(force = false) {
    const { study } = studio;
    if (!study || !studio.shown(root) || (!force && asked === study)) return;
    asked = study;
    let r;
    try {
      r = await studio.api(`/api/results/${encodeURIComponent(study)}?run=${encodeURIComponent(run)}`);
    } catch (error) {
      page.replaceChildren(el('p', { class: 'panel rs-wide' }, error.message));
      return;
    }
    if (asked !== study) return;
    const pick = el('select', { 'aria-label': 'Run', onchange: () => { run = pick.value; show(true); } }, r.runs.map((x) => el('option', { value: x.id, selected: x.id === r.run }, `${x.title} · ${x.name} · ${x.created.slice(0, 10)}`)));
    const out = [['csv', 'Decisions, CSV'], ['coco', 'Masks, COCO'], ['png', 'Masks, PNG'], ['dicom-seg', 'DICOM-SEG'], ['bundle', 'Whole study, bundle']]
      .map(([kind, text]) => el('a', { href: `/api/export/${encodeURIComponent(study)}/${kind}`, download: '', title: kind === 'bundle' ? 'Names are kept: for moving a study between installations' : 'Names and dates are remapped; burned-in text in images is not' }, text));
    const blind = el('button', { 'aria-pressed': String(r.blind), title: 'Readers decide before they see score, heat map and mask', onclick: async () => {
      try {
        await studio.api('/api/review/settings', { study, blind: !r.blind });
      } catch (error) {
        studio.toast(error.message, 'bad');
      }
      show(true);
    } }, r.blind ? 'Blind-first reading: on' : 'Blind-first reading: off');
    out.push(blind);
    const careful = el('p', { class: 'warn rs-careful', hidden: true });
    studio.api(`/api/export/${encodeURIComponent(study)}/warning`).then(({ text, cases }) => {
      careful.hidden = !text;
      if (text) careful.replaceChildren(`${text}. `, cases.length ? open(cases[0], 'Look at the first') : '');
    }).catch(() => {});
    const exports = el('section', { class: 'panel rs-wide' }, el('div', { class: 'rs-head' }, el('h2', {}, 'Take it with you'), out), careful);
    if (!r.runs.length) {
      page.replaceChildren(el('p', { class: 'panel rs-wide' }, 'No run has scored this study yet: train and fit one in Training.'), el('section', { class: 'panel rs-wide' }, el('h2', {}, 'Agreement of readers'), agreement(r.agreement)), exports);
      return;
    }
    page.replaceChildren(
      el('section', { class: 'panel' }, el('div', { class: 'rs-head' }, el('h2', {}, 'Operating point')), roc(r.labels), el('p', { class: 'dim num' }, r.labels.auroc === null ? '' : `AUROC ${r.labels.auroc.toFixed(3)}; the dot is the threshold, the 95th percentile of held-out normals`), promise(r.promise)),
      el('div', { class: 'panel' }, el('div', { class: 'rs-head' }, el('h2', {}, 'Flagged or not'), pick), el('div', { class: 'rs-two' }, figures('Against the labels', r.labels), figures('Against the readers', r.readers)),
        el('h2', {}, 'Detectors side by side'), compared(r.compared, r.run),
        el('h2', {}, 'Agreement of readers'), agreement(r.agreement), el('h2', {}, 'Minds changed with the reading in sight'), minds(r.minds)),
      el('section', { class: 'panel rs-wide' }, el('h2', {}, 'Predictions, from the highest score to the lowest'), panel(r.panel)),
      el('section', { class: 'panel rs-wide' }, el('h2', {}, 'Dice by lesion size, at the pixel threshold of held-out normals'), sizes(r.sizes)), exports);
  }

  studio.on('study', () => show());
  studio.on('tab', (tab) => tab === 'results' && show(true));
  new ResizeObserver(() => show()).observe(root);
  show();
}
