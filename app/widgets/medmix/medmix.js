// The MedMix tab: controls on the left, classes A_0..A_k by sample on the right, repainted as a slider moves.
import { Form } from '/page/static/form.js';

export async function mount(root, studio) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  const { strong: kinds, weak } = await api('/api/medmix/forms');
  let presets = [];
  let strong = 'medmix';
  let form = null;
  let seed = 1;
  let frozen = null; // settings kept to be seen beside
  let drop = ''; // images dropped here instead of the study's
  const kept = {}; // settings of each augmentation while another is looked at
  const drawn = []; // what each grid shows

  // Controls -----------------------------------------------------------------------------------
  $('.strong').append(...Object.entries(kinds).map(([name, k]) => el('option', { value: name }, k.title)));
  const weakForm = new Form(weak.form, weak.presets.gentle, () => paint(), { open: 0, prefix: 'weak.' });
  $('.weak-controls').append(weakForm.element);
  function build(name, values) {
    if (form) kept[strong] = form.get();
    strong = name;
    $('.strong').value = name;
    form = new Form(kinds[name].form, { ...kinds[name].defaults, ...(values || kept[name] || {}) }, () => { showPreset(); paint(); }, { open: 2 });
    $('.controls').replaceChildren(form.element);
    fillPresets();
  }
  const same = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
  const label = (p) => `${p.name}${p.version ? ` · v${p.version}` : ''}`;
  function fillPresets() {
    const mine = presets.map((p, i) => [p, i]).filter(([p]) => p.strong === strong);
    const options = () => mine.map(([p, i]) => el('option', { value: String(i) }, label(p)));
    $('.preset').replaceChildren(el('option', { value: '' }, mine.length ? 'changed by hand' : 'none saved'), ...options());
    const select = $('.beside-choice');
    const was = select.value;
    select.replaceChildren(el('option', { value: '' }, 'nothing'), el('option', { value: 'now' }, 'this setting, kept'), ...options());
    select.value = [...select.options].some((o) => o.value === was) ? was : '';
    if (!select.value) frozen = null;
    showPreset();
  }
  function showPreset() {
    const now = form.get();
    const i = presets.findIndex((p) => p.strong === strong && same(p.config, now));
    $('.preset').value = i < 0 ? '' : String(i);
    $('.remove-preset').disabled = i < 0 || presets[i].built_in;
  }
  async function readPresets() {
    ({ presets } = await api('/api/medmix/presets'));
  }
  $('.strong').onchange = (event) => { build(event.target.value); paint(); };
  $('.preset').onchange = (event) => {
    if (event.target.value === '') return showPreset();
    form.set(presets[Number(event.target.value)].config);
    showPreset();
    paint();
  };
  const ask = (text, value) => new Promise((resolve) => {
    const box = el('input', { type: 'text', value, maxlength: 60, 'aria-label': text });
    const dialog = el('dialog', { class: 'ask' });
    const done = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    dialog.append(el('form', { onsubmit: (e) => { e.preventDefault(); done(box.value.trim()); } }, el('label', {}, text, box),
      el('menu', {}, el('button', { type: 'button', onclick: () => done('') }, 'Cancel'), el('button', { class: 'main' }, 'Save'))));
    dialog.addEventListener('cancel', () => done(''));
    document.body.append(dialog);
    dialog.showModal();
    box.select();
  });
  const current = () => presets[Number($('.preset').value || -1)];
  const tell = (promise) => promise.catch((e) => toast(e.message, 'bad'));
  let lastName = 'my lesions';
  $('.save').onclick = () => tell((async () => {
    const name = await ask('Name of the preset', lastName);
    if (!name) return;
    const { preset } = await api('/api/medmix/presets', { name, strong, config: form.get() });
    lastName = name;
    await readPresets();
    fillPresets();
    toast(`Saved as ${label(preset)}.`, 'good');
  })());
  $('.remove-preset').onclick = () => tell((async () => {
    const p = current();
    if (!p || !(await studio.confirm(`Take “${p.name}” out of the list?`, 'Remove'))) return;
    await api(`/api/medmix/presets/${encodeURIComponent(p.name)}`, undefined, { method: 'DELETE' });
    await readPresets();
    fillPresets();
  })());
  function hand(blob, name) {
    const link = el('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
  $('.export').onclick = () => tell((async () => {
    const p = current();
    const answer = await fetch('/api/medmix/presets.yaml', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: p ? p.name : lastName, version: p ? p.version : 0, strong, config: form.get() }) });
    if (!answer.ok) throw new Error((await answer.json()).error);
    hand(await answer.blob(), `${(p ? p.name : lastName).replace(/\W+/g, '-')}.yaml`);
  })());
  $('.import').onclick = () => $('.yaml').click();
  $('.yaml').onchange = (event) => tell((async () => {
    const [file] = event.target.files;
    if (!file) return;
    const { preset } = await api('/api/medmix/presets/read', { text: await file.text() });
    event.target.value = '';
    lastName = preset.name;
    build(preset.strong, preset.config);
    paint();
    toast(`Read “${preset.name}”. Save it to keep it.`, 'good');
  })());
  $('.train').onclick = () => {
    const p = current();
    studio.handed = { strong, config: form.get(), weak: weakForm.get(), preset: p ? label(p) : '' };
    studio.openTab('training');
    studio.emit('train-with', studio.handed);
  };

  // The picture --------------------------------------------------------------------------------
  const scene = (config, samples) => ({
    study: studio.study || '', strong, config, seed, samples, size: Number($('.side').value), drop,
    weak: $('.weak').checked, weak_config: weakForm.get(),
  });
  async function fetchGrid(config, samples) {
    const answer = await fetch('/api/medmix/grid', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ scene: scene(config, samples) }) });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || 'The picture could not be made.');
    const bytes = await answer.arrayBuffer();
    const length = new DataView(bytes).getUint32(0, true);
    const about = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
    const pixels = new Uint8ClampedArray(bytes.slice(4 + length));
    return { ...about, pixels };
  }
  // One request at a time; while it is out, only the newest wish waits. So a slider never queues up work.
  let busy = false;
  let again = false;
  async function paint() {
    const ready = Boolean(studio.study || drop);
    $('.stage .none').hidden = ready;
    $('.sheet').hidden = !ready;
    if (!ready || !form) return;
    if (busy) { again = true; return; }
    busy = true;
    const from = performance.now();
    try {
      const settings = frozen ? [form.get(), frozen] : [form.get()];
      const grids = [];
      for (const config of settings) grids.push(await fetchGrid(config, frozen ? 3 : 6));
      form.complain('');
      show(grids);
      const ms = Math.round(performance.now() - from);
      root.dataset.repaint = ms;
      root.dataset.painted = String(Number(root.dataset.painted || 0) + 1);
      $('.told').textContent = drop ? 'Dropped images' : `Same images and draws until you ask for others · repainted in ${ms} ms`;
    } catch (error) {
      if (!form.complain(error.message)) toast(error.message, 'bad');
    } finally {
      busy = false;
      if (again) { again = false; paint(); }
    }
  }
  function fit(rows, cols, count) {
    const stage = $('.stage').getBoundingClientRect();
    const wide = (stage.width - (count - 1) * 18) / (cols * count);
    const high = (window.innerHeight - stage.top - 42) / rows;
    return Math.max(60, Math.min(wide, Math.max(high, 90)));
  }
  function show(grids) {
    const sheet = $('.sheet');
    while (sheet.children.length > grids.length) sheet.lastChild.remove();
    drawn.length = grids.length;
    grids.forEach((grid, i) => {
      let box = sheet.children[i];
      if (!box) {
        box = el('div', { class: 'grid' }, el('canvas'), el('svg', { preserveAspectRatio: 'none' }));
        box.onmousemove = (event) => hover(i, event);
        box.onmouseleave = () => marks(i, null);
        box.onclick = (event) => zoom(i, event);
        sheet.append(box);
      }
      drawn[i] = grid;
      const canvas = box.querySelector('canvas');
      const [w, h] = [grid.cols * grid.side, grid.rows * grid.side];
      if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
      canvas.getContext('2d').putImageData(new ImageData(grid.pixels, w, h), 0, 0);
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `Classes A_0 to A_${grid.rows - 1} of ${grid.cols} samples`);
      const cell = fit(grid.rows, grid.cols, grids.length);
      box.style.width = `${Math.floor(cell * grid.cols)}px`;
      box.style.height = `${Math.floor(cell * grid.rows)}px`;
      box.querySelectorAll('.class-name, h3').forEach((n) => n.remove());
      for (let n = 0; n < grid.rows; n += 1) {
        box.append(el('span', { class: 'class-name', style: `top:${(100 * n) / grid.rows + 0.8}%` }, 'A', el('sub', {}, String(n))));
      }
      if (grids.length > 1) box.append(el('h3', {}, i ? 'kept' : 'now'));
      marks(i, null);
    });
  }
  function marks(i, hot) {
    const grid = drawn[i];
    const svg = $('.sheet').children[i]?.querySelector('svg');
    if (!grid || !svg) return;
    svg.setAttribute('viewBox', `0 0 ${grid.cols} ${grid.rows}`);
    const parts = [];
    for (let c = 1; c < grid.cols; c += 1) parts.push(el('line', { class: 'gap', x1: c, x2: c, y1: 0, y2: grid.rows }));
    for (let r = 1; r < grid.rows; r += 1) parts.push(el('line', { class: 'gap', y1: r, y2: r, x1: 0, x2: grid.cols }));
    if ($('.outlines').checked) {
      grid.outlines.forEach((row, n) => row.forEach((lines, m) => lines.forEach((line) =>
        parts.push(el('polygon', { points: line.map(([x, y]) => `${m + x},${n + y}`).join(' ') })))));
    }
    if ($('.sources').checked) {
      for (const s of grid.sources) {
        if (hot && (s.n !== hot.n || s.m !== hot.m)) continue;
        if (!hot && s.n !== 1) continue; // at rest only A_1's, or the picture would be all boxes
        if (s.donor >= grid.cols) continue;
        const [x0, y0, x1, y1] = s.box;
        const [u0, v0, u1, v1] = s.to;
        parts.push(el('rect', { class: 'cut', x: s.donor + x0, y: y0, width: x1 - x0, height: y1 - y0 }));
        parts.push(el('line', { class: 'way', x1: s.donor + (x0 + x1) / 2, y1: (y0 + y1) / 2, x2: s.m + (u0 + u1) / 2, y2: s.n + (v0 + v1) / 2 }));
      }
    }
    if (hot) parts.push(el('rect', { class: 'hot', x: hot.m, y: hot.n, width: 1, height: 1 }));
    svg.replaceChildren(...parts);
  }
  const cellAt = (i, event) => {
    const box = $('.sheet').children[i].getBoundingClientRect();
    const { rows, cols } = drawn[i];
    const m = Math.floor(((event.clientX - box.left) / box.width) * cols);
    const n = Math.floor(((event.clientY - box.top) / box.height) * rows);
    return m >= 0 && m < cols && n >= 0 && n < rows ? { n, m } : null;
  };
  const hover = (i, event) => marks(i, cellAt(i, event));
  function zoom(i, event) {
    const at = cellAt(i, event);
    if (!at) return;
    const { side } = drawn[i];
    const canvas = el('canvas', { width: side, height: side });
    canvas.getContext('2d').drawImage($('.sheet').children[i].querySelector('canvas'), at.m * side, at.n * side, side, side, 0, 0, side, side);
    const dialog = el('dialog', { class: 'zoom' }, canvas, el('p', {}, `A_${at.n} of ${drawn[i].names[at.m]} · click or Esc to close`));
    dialog.onclick = () => dialog.close();
    dialog.onclose = () => dialog.remove();
    document.body.append(dialog);
    dialog.showModal();
  }
  for (const name of ['.outlines', '.sources']) $(name).onchange = () => drawn.forEach((_, i) => marks(i, null));
  $('.weak').onchange = () => paint();
  $('.side').onchange = () => paint();
  $('.other').onclick = () => { seed += 1; paint(); };
  $('.beside-choice').onchange = (event) => {
    const v = event.target.value;
    frozen = v === '' ? null : v === 'now' ? form.get() : presets[Number(v)].config;
    paint();
  };
  $('.download').onchange = (event) => {
    const kind = event.target.value;
    event.target.value = '';
    if (!kind) return;
    tell((async () => {
      const body = { scene: scene(form.get(), 6), outlines: $('.outlines').checked, title: '' };
      const answer = await fetch(`/api/medmix/figure.${kind}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error((await answer.json()).error);
      hand(await answer.blob(), `${strong}-classes.${kind}`);
    })());
  };

  // Images dropped here ------------------------------------------------------------------------
  const stage = $('.stage');
  stage.ondragover = (event) => { event.preventDefault(); stage.classList.add('over'); };
  stage.ondragleave = () => stage.classList.remove('over');
  stage.ondrop = (event) => {
    event.preventDefault();
    stage.classList.remove('over');
    tell((async () => {
      const token = (await api('/api/study/drop', {})).drop;
      for (const file of event.dataTransfer.files) await api(`/api/study/drop/${token}?path=${encodeURIComponent(file.name)}`, undefined, { method: 'PUT', body: file });
      drop = token;
      $('.drop-off').hidden = false;
      paint();
    })());
  };
  $('.drop-off').onclick = () => { drop = ''; $('.drop-off').hidden = true; paint(); };

  // Numbers beside the picture -----------------------------------------------------------------
  const percent = (v) => `${Math.round(100 * v)} %`;
  $('.measure').onclick = () => tell((async () => {
    if (!studio.study) return;
    const panel = $('.numbers.panel');
    panel.hidden = false;
    panel.replaceChildren(el('p', { class: 'dim' }, 'Looking at these settings through an encoder…'), el('progress'));
    $('.measure').disabled = true;
    try {
      const r = await api('/api/medmix/probe', { scene: { ...scene(form.get(), 6), drop: '' }, encoder: 'latest' });
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
          r.survival == null ? null : fact('A weak crop keeps, of a lesion', percent(r.survival)),
          r.lost == null ? null : fact('Weak views that lose most of it', percent(r.lost)),
          r.near ? fact('Real lesions told from normal', `AUROC ${r.near.auroc_real.toFixed(2)}`) : fact('Real lesions', 'too few masks here'),
          r.near ? fact('Synthetic ones by the same line', `AUROC ${r.near.auroc_synthetic.toFixed(2)}`) : null),
        matrix, el('p', { class: 'dim' }, `${r.encoder === 'untrained' ? 'An untrained encoder' : r.encoder}, ${r.images} images at 64 px, ${studio.seconds(r.seconds)}`));
      panel.dataset.done = 'yes';
    } catch (error) {
      panel.hidden = true;
      throw error;
    } finally {
      $('.measure').disabled = false;
    }
  })());

  new ResizeObserver(() => drawn.length && drawn[0] && show([...drawn])).observe($('.stage'));
  studio.on('study', () => { drop = ''; $('.drop-off').hidden = true; paint(); });
  await readPresets();
  build('medmix', (presets.find((p) => p.name === 'quick') || presets[0]).config);
  if (studio.started) paint();
  else studio.on('started', paint);
}
