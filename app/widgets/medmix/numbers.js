// Numbers beside the picture, before any training: how hard the classes are to tell, what weak crops keep, what is near.
const { el, seconds } = window.Studio;
const percent = (v) => `${Math.round(100 * v)} %`;

export function showNumbers(panel, r) {
  const matrix = el('div', { class: 'matrix', style: `grid-template-columns: repeat(${r.confusion.length + 1}, auto)` });
  matrix.append(el('span', { class: 'dim' }, 'is \\ said'), ...r.confusion.map((_, n) => el('span', { class: 'dim' }, `A${n}`)));
  r.confusion.forEach((row, n) => {
    const sum = row.reduce((a, b) => a + b, 0) || 1;
    matrix.append(el('span', { class: 'dim' }, `A${n}`), ...row.map((v) => el('span', { style: `background:rgba(124,196,212,${(0.75 * v) / sum})` }, percent(v / sum))));
  });
  const fact = (name, value) => [el('span', { class: 'dim' }, name), el('span', { class: 'num' }, value)];
  panel.replaceChildren(
    el('div', { class: 'top' }, el('h2', {}, 'Before any training'), el('button', { 'aria-label': 'Close', onclick: () => { panel.hidden = true; } }, '✕')),
    ...r.words.map((w) => el('p', { class: w.kind }, w.text)),
    el('div', { class: 'facts' }, fact('A linear probe tells classes apart', `${percent(r.accuracy)} (guessing ${percent(r.chance)})`),
      fact('It tells some lesion from none', `${percent(r.told)} (guessing 50 %)`),
      r.survival == null ? null : fact('A weak crop keeps, of a lesion', percent(r.survival)),
      r.lost == null ? null : fact('Weak views that lose most of it', percent(r.lost)),
      r.near ? fact('Real lesions told from normal', `AUROC ${r.near.auroc_real.toFixed(2)}`) : fact('Real lesions', 'too few masks here'),
      r.near ? fact('Synthetic ones by the same line', `AUROC ${r.near.auroc_synthetic.toFixed(2)}`) : null,
      r.near ? fact('Synthetic from real ones (normal patches: 1)', r.near.distance.toFixed(1)) : null),
    matrix, el('p', { class: 'dim' }, `${r.encoder === 'untrained' ? 'An untrained encoder' : r.encoder}, ${r.images} images at 64 px, ${seconds(r.seconds)}`));
  panel.dataset.done = 'yes';
}

export function waitForNumbers(panel) {
  panel.hidden = false;
  delete panel.dataset.done;
  panel.replaceChildren(el('p', { class: 'dim' }, 'Looking at these settings through an encoder…'), el('progress'));
}
