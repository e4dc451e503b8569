// The Study tab: import, report, counts, a sample with outlines. What administrators set lives in manage.js.
export async function mount(root, studio) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  let seed = 0;
  let admin = null; // the forms of manage.js
  let turn = 0; // an answer that comes after a newer question is thrown away

  // Import -------------------------------------------------------------------------------------
  const busy = (yes) => {
    root.querySelectorAll('.go-path, .draw-demo').forEach((b) => { b.disabled = yes; });
    $('.progress').hidden = !yes;
  };
  const tell = (text, done, total) => {
    const bar = $('.progress progress');
    if (total) bar.value = done / total;
    else bar.removeAttribute('value');
    $('.progress .what').textContent = text;
  };
  async function follow(task, verb) {
    for (;;) {
      const state = await api(`/api/study/import/${task}`);
      if (state.state === 'failed') throw new Error(state.error);
      if (state.state === 'done') return state.report;
      tell(state.total ? `${verb} ${state.done} of ${state.total}` : `${verb}…`, state.done, state.total);
      await new Promise((r) => setTimeout(r, 250));
    }
  }
  async function bring(start, verb) {
    busy(true);
    studio.byHand = studio.importing = true;
    tell(`${verb}…`, 0, 0);
    try {
      const report = await follow((await start()).task, verb);
      const left = report.rejected.length;
      toast(`${report.accepted} images taken${left ? `, ${left} left out` : ''}.`, left ? 'note' : 'good');
      $('.name').value = $('.folder').value = '';
      studio.chooseStudy(report.study);
    } catch (error) {
      toast(error.message, 'bad');
    } finally {
      studio.importing = false;
      busy(false);
    }
  }
  const perSecond = () => Number($('.per-second').value) || 1;
  const nameOr = (fallback) => $('.name').value.trim() || fallback;
  $('.go-path').onclick = () => {
    const folder = $('.folder').value.trim();
    const last = folder.replace(/[/\\]+$/, '').split(/[/\\]/).pop().replace(/\.csv$/i, '');
    bring(() => api('/api/study/import', { name: nameOr(last), folder, keep: $('.copy').checked, per_second: perSecond() }), 'Reading');
  };
  $('.folder').onkeydown = (event) => { if (event.key === 'Enter') $('.go-path').click(); };
  $('.draw-demo').onclick = () => bring(() => api('/api/study/demo', {}), 'Drawing');

  // Files come one by one, each with its path below what was dropped, so that the layout is kept.
  async function send(files) {
    if (!files.length) return;
    const first = files[0].path.split('/');
    const guess = first.length > 1 ? first[0] : files[0].path.replace(/\.\w+$/, '');
    await bring(async () => {
      const { drop } = await api('/api/study/drop', {});
      let next = 0;
      let done = 0;
      const worker = async () => {
        while (next < files.length) {
          const { path, file } = files[next++];
          await api(`/api/study/drop/${drop}?path=${encodeURIComponent(path)}`, undefined, { method: 'PUT', body: file });
          tell(`Taking ${++done} of ${files.length}`, done, files.length);
        }
      };
      await Promise.all([worker(), worker(), worker()]);
      return api('/api/study/import', { name: nameOr(guess), drop, per_second: perSecond() });
    }, 'Reading');
  }
  async function walk(entry, into, path = '') {
    if (entry.isFile) {
      into.push({ path: path + entry.name, file: await new Promise((yes, no) => entry.file(yes, no)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((yes, no) => reader.readEntries(yes, no));
      if (!some.length) break;
      for (const inner of some) await walk(inner, into, `${path}${entry.name}/`);
    }
  }
  const zone = $('.drop');
  zone.ondragover = (event) => { event.preventDefault(); zone.classList.add('over'); };
  zone.ondragleave = () => zone.classList.remove('over');
  zone.ondrop = async (event) => {
    event.preventDefault();
    zone.classList.remove('over');
    const entries = [...event.dataTransfer.items].map((i) => i.webkitGetAsEntry?.()).filter(Boolean);
    const files = [];
    for (const entry of entries) await walk(entry, files);
    send(files);
  };
  const chosen = (input) => {
    send([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = '';
  };
  $('.pick-folder').onclick = () => $('.whole').click();
  $('.pick-files').onclick = () => $('.files').click();
  zone.onkeydown = (event) => { if (event.target === zone && event.key === 'Enter') $('.whole').click(); };
  $('.files').onchange = (event) => chosen(event.target);
  $('.whole').onchange = (event) => chosen(event.target);

  // Overview -----------------------------------------------------------------------------------
  const LABEL = { normal: 'normal', abnormal: 'abnormal', unknown: 'not labelled' };
  const SPLIT = { train: 'train', holdout: 'held out', test: 'test' };
  function counts(data) {
    const labels = Object.keys(LABEL).filter((l) => Object.values(data.table).some((row) => row[l]));
    const cell = (n) => el('td', { class: n ? 'num' : 'num zero' }, String(n));
    const rows = Object.keys(SPLIT).map((s) => el('tr', {}, el('td', {}, SPLIT[s]),
      labels.map((l) => cell(data.table[s][l])), cell(data.masks[s])));
    const sum = (l) => Object.values(data.table).reduce((n, row) => n + row[l], 0);
    const masks = Object.values(data.masks).reduce((a, b) => a + b, 0);
    $('.counts').replaceChildren(el('tr', {}, el('th', {}, 'Cases'), labels.map((l) => el('th', {}, LABEL[l])), el('th', {}, 'lesion masks')),
      ...rows, el('tr', { class: 'total' }, el('td', {}, 'all'), labels.map((l) => cell(sum(l))), cell(masks)));
    const parts = Object.keys(SPLIT).flatMap((s) => labels.filter((l) => data.table[s][l]).map((l) => [`${s} ${l}`, `${SPLIT[s]}, ${LABEL[l]}`]));
    const select = $('.part');
    const kept = select.value;
    select.replaceChildren(el('option', { value: 'all' }, 'every split and label'), ...parts.map(([v, t]) => el('option', { value: v }, t)));
    select.value = parts.some(([v]) => v === kept) ? kept : 'all';
  }
  function report(data) {
    const r = data.report;
    const box = $('.report');
    if (!r) {
      box.replaceChildren(el('p', { class: 'dim' }, 'The report of this import was not kept.'));
      return;
    }
    const list = (items, line) => el('ul', { class: 'dim' }, items.slice(0, 200).map((i) => el('li', {}, line(i))));
    box.replaceChildren(
      r.rejected.length
        ? el('details', { open: true }, el('summary', { class: 'warn' }, `${r.rejected.length} ${r.rejected.length > 1 ? 'files' : 'file'} left out`),
          list(r.rejected, (i) => `${i.path.split('/').slice(-2).join('/')}: ${i.reason}`))
        : el('p', { class: 'good' }, '✓ Every file could be read.'),
      r.duplicates.length
        ? el('details', { open: r.duplicates.length < 5 }, el('summary', { class: 'warn' }, `${r.duplicates.length} test ${r.duplicates.length > 1 ? 'cases show' : 'case shows'} what a training image shows`),
          list(r.duplicates, (d) => `${d.test} is ${d.kind === 'exact' ? 'the same file as' : 'nearly the same as'} ${d.train}`))
        : el('p', { class: 'good' }, '✓ No test case repeats a training image.'),
      r.burned_in?.length
        ? el('details', {}, el('summary', { class: 'warn' }, `${r.burned_in.length} ${r.burned_in.length > 1 ? 'images' : 'image'} may carry burned-in text`),
          el('p', { class: 'dim' }, 'A name or a date in the picture stays there, whatever is remapped: look before you pass images on.'), list(r.burned_in, (n) => n))
        : '');
  }
  async function tiles() {
    const mine = ++turn;
    const { cases } = await api(`/api/study/${studio.study}/sample?count=28&seed=${seed}&part=${encodeURIComponent($('.part').value)}`);
    if (mine !== turn) return;
    $('.tiles').replaceChildren(...cases.map((c) => {
      const svg = el('svg', { viewBox: `0 0 ${c.width} ${c.height}`, preserveAspectRatio: 'xMidYMid meet', role: 'img', 'aria-label': `${c.name}, ${c.split}, ${c.label}` });
      const picture = document.createElementNS('http://www.w3.org/2000/svg', 'image');
      picture.setAttribute('href', `/api/study/case/${c.id}/tile.png?side=320`);
      picture.setAttribute('width', c.width);
      picture.setAttribute('height', c.height);
      svg.append(picture);
      api(`/api/study/case/${c.id}/outlines`).then((lines) => {
        for (const kind of ['roi', 'lesion']) {
          for (const line of lines[kind]) svg.append(el('polygon', { class: kind, points: line.map(([x, y]) => `${x * c.width},${y * c.height}`).join(' ') }));
        }
        svg.dataset.outlined = 'yes';
      }).catch(() => {});
      return el('figure', { class: 'tile', title: c.name }, el('div', { class: 'frame' }, svg),
        el('figcaption', { class: c.label }, `${SPLIT[c.split]} · ${LABEL[c.label]}`));
    }));
  }
  async function show(_, forms = true) {
    const study = studio.study;
    $('.empty').hidden = Boolean(study);
    $('.there').hidden = !study;
    if (!study) return;
    try {
      const data = await api(`/api/study/${study}/overview`);
      if (study !== studio.study) return;
      $('.title').textContent = data.study.name;
      const sizes = data.sizes.slice(0, 2).map(([s]) => s).join(', ') + (data.size_count > 2 ? ` and ${data.size_count - 2} more sizes` : '');
      $('.facts').textContent = [`${data.study.cases} cases`, sizes, `${data.bits.join(' and ')} bits`, ...data.modalities, data.study.folder].filter(Boolean).join(' · ');
      counts(data);
      report(data);
      if (forms) admin?.show(study);
      await tiles();
    } catch (error) {
      toast(error.message, 'bad');
    }
  }
  $('.another').onclick = () => { seed += 1; tiles().catch((e) => toast(e.message, 'bad')); };
  $('.part').onchange = () => tiles().catch((e) => toast(e.message, 'bad'));
  $('.show-roi').onchange = (e) => $('.tiles').classList.toggle('no-roi', !e.target.checked);
  $('.show-lesion').onchange = (e) => $('.tiles').classList.toggle('no-lesion', !e.target.checked);
  $('.remove').onclick = async () => {
    if (!(await studio.confirm('Remove this study with its runs? The original images stay where they are.', 'Remove study'))) return;
    try {
      await api(`/api/study/${studio.study}`, undefined, { method: 'DELETE' });
      studio.chooseStudy(null);
    } catch (error) {
      toast(error.message, 'bad');
    }
  };
  // Fetched beside: the import's own buttons must not wait for forms that are seldom used.
  import('./manage.js').then(({ manage }) => { admin = manage(root, studio, { bring, show, refresh: () => show(null, false) }); })
    .catch((error) => toast(error.message, 'bad'));
  // While the demo is drawn elsewhere, the empty room says so.
  studio.on('status', ({ job }) => {
    if (!studio.study && job && job.verb === 'demo') $('.empty p').textContent = `${job.message || 'The demo study is about to be drawn'}. Its training starts by itself.`;
  });
  studio.on('study', show);
  if (studio.started) show();
  else studio.on('started', show);
}
