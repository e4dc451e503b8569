// What an administrator sets for a study: adding cases, the watched folder, who reads which case, the labels of findings.
// The server checks the right to each of them again.
export function manage(root, studio, { bring, show, refresh }) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  const at = (path = '') => `/api/manage/${encodeURIComponent(studio.study)}${path}`;
  const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
  let allowed = false;
  let data = null;
  let arrived; // when something last came in by the watched folder

  const fill = (name, ...content) => $(`.m-${name}`).replaceChildren(...content);
  const buttons = root.querySelectorAll('.manage nav button');
  for (const button of buttons) {
    button.onclick = () => {
      for (const other of buttons) {
        const open = other === button && other.getAttribute('aria-expanded') === 'false';
        other.setAttribute('aria-expanded', String(open));
        $(`.m-${other.dataset.opens}`).hidden = !open;
      }
    };
  }
  // Sends a form; what went wrong is said, and the form keeps what was typed.
  const send = async (path, body, done) => {
    try {
      done(await api(at(path), body));
    } catch (error) {
      toast(error.message, 'bad');
    }
  };
  const form = (submit, ...parts) => el('form', { onsubmit: (event) => { event.preventDefault(); submit(); } }, ...parts);
  const check = (text, checked) => {
    const box = el('input', { type: 'checkbox', checked });
    return [box, el('label', { class: 'check' }, box, text)];
  };
  const path = (label, value) => {
    const box = el('input', { type: 'text', class: 'path', value, autocomplete: 'off', spellcheck: 'false', 'aria-label': label });
    return [box, el('label', {}, label, box)];
  };

  function adding() {
    const [where, whereLabel] = path('File or folder on this machine', '');
    const rate = el('input', { type: 'number', class: 'per-second', min: 0.01, max: 1000, step: 'any', value: 1, 'aria-label': 'Frames a second' });
    const [keep, keepLabel] = check('Copy into the studio', false);
    fill('add', form(() => bring(() => api(`/api/study/${encodeURIComponent(studio.study)}/add`, { path: where.value, keep: keep.checked, per_second: Number(rate.value) || 1 }), 'Reading').then(show),
      whereLabel, el('label', {}, 'Recordings, frames a second ', rate), keepLabel, el('button', {}, 'Add')),
    el('p', { class: 'dim' }, 'They come in as test cases without a label, scored by the run that Review opens with. A recording becomes a series of frames with a timeline in Review.'));
  }

  function told(watch) {
    const c = watch.counts;
    const waiting = (c.waiting || 0) + (c.ready || 0);
    const job = watch.job && (watch.job.status === 'running' ? watch.job.message : watch.job.status === 'queued' ? 'waiting for the job that is at work' : `${watch.job.status}; resume it in Training`);
    const facts = [watch.active ? 'On' : 'Off', `${c.taken || 0} taken`, waiting && `${waiting} still being written or waiting`, c.double && `${c.double} there already`, c.failed && `${c.failed} left out`, job];
    return [el('p', { class: watch.active ? 'good' : 'dim', role: 'status' }, facts.filter(Boolean).join(' · ')),
      watch.message ? el('p', { class: 'dim' }, watch.message) : null,
      watch.left_out.length ? el('ul', { class: 'dim' }, watch.left_out.map((f) => el('li', {}, `${f.name}: ${f.note}`))) : null];
  }

  function watching() {
    const w = data.watch;
    const [folder, folderLabel] = path('Folder on this machine', w?.folder || '');
    const run = el('select', { 'aria-label': 'Scored by' }, el('option', { value: '' }, 'the run that Review opens with'),
      data.runs.map((r) => el('option', { value: r.id }, `${r.name} · ${r.created.slice(0, 10)}`)));
    run.value = w?.run || '';
    const [copy, copyLabel] = check('Copy into the studio', w?.copy);
    const state = el('div', { class: 'state' }, w ? told(w) : el('p', { class: 'dim' }, 'Images and recordings dropped into this folder come in by themselves, are scored, and appear in Review. The folder is looked at while the studio is open.'));
    const set = (active) => send('/watch', { folder: folder.value, run: run.value, copy: copy.checked, active }, (answer) => { data.watch = answer.watch; watching(); });
    fill('watch', form(() => set(true), folderLabel, el('label', {}, 'Scored by ', run), copyLabel,
      el('button', { class: w?.active ? null : 'main' }, w?.active ? 'Keep changes' : 'Watch'),
      w?.active ? el('button', { type: 'button', onclick: () => set(false) }, 'Stop watching') : null), state);
  }

  function dealing() {
    if (!data.readers.length) {
      fill('readers', el('p', { class: 'dim' }, 'Accounts are made with “python launch.py reader add NAME”; the studio is then opened with “--readers”.'));
      return;
    }
    const boxes = data.readers.map((r) => [r, ...check(r.name, false)]);
    const twice = el('select', { 'aria-label': 'Readers for each case' }, el('option', { value: 1 }, 'one reader'), el('option', { value: 2 }, 'two readers (double reading)'));
    const rows = boxes.map(([r, , label]) => el('tr', {}, el('td', {}, label), el('td', { class: 'dim' }, r.role || ''), el('td', { class: 'num' }, String(r.assigned)), el('td', { class: 'num' }, String(r.read)),
      el('td', {}, r.assigned > r.read ? el('button', { type: 'button', class: 'link', title: `Take back what ${r.name} has not read yet`, onclick: () => send('/unassign', { reader: r.name }, dealt) }, 'take back') : null)));
    fill('readers', form(() => send('/assign', { readers: boxes.filter(([, box]) => box.checked).map(([r]) => r.name), per_case: Number(twice.value) }, dealt),
      el('table', {}, el('tr', {}, ['Reader', '', 'assigned', 'read', ''].map((t) => el('th', {}, t))), rows),
      el('label', {}, 'Each case to ', twice), el('button', {}, 'Deal out')),
    el('p', { class: 'dim' }, `${plural(data.free, 'test case')} of ${data.cases} assigned to nobody. Dealing gives each case as many readers as chosen, evenly; what was dealt before stays.`));
  }
  function dealt(answer) {
    Object.assign(data, answer);
    dealing();
  }

  function naming() {
    const box = el('textarea', { rows: Math.min(Math.max(data.labels.length + 1, 3), 8), 'aria-label': 'Labels, one on each line' });
    box.value = data.labels.join('\n');
    fill('labels', form(() => send('/labels', { labels: box.value.split('\n') }, (answer) => { data.labels = answer.labels; naming(); toast('Labels kept.', 'good'); }),
      box, el('button', {}, 'Keep')), el('p', { class: 'dim' }, 'One on each line; offered in Review when a mask is saved. Findings that use an older label keep it.'));
  }

  async function open(study) {
    if (!allowed) return;
    try {
      const got = await api(at());
      if (study !== studio.study) return;
      data = got;
    } catch (error) {
      toast(error.message, 'bad');
      return;
    }
    arrived = undefined;
    adding();
    watching();
    dealing();
    naming();
  }

  // A bundle is one zip, sent as it is.
  $('.pick-bundle').onclick = () => $('input.bundle').click();
  $('input.bundle').onchange = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    const button = $('.pick-bundle');
    button.disabled = true;
    toast(`Bringing in ${file.name}…`);
    studio.byHand = studio.importing = true;
    try {
      const done = await api('/api/export/bundle', undefined, { method: 'POST', body: file });
      toast(`${plural(done.rows.cases, 'case')} and ${plural(done.rows.reviews, 'decision')} brought in.`, 'good');
      studio.chooseStudy(done.study);
    } catch (error) {
      toast(error.message, 'bad');
    } finally {
      studio.importing = false;
      button.disabled = false;
      event.target.value = '';
    }
  };

  studio.on('status', async (status) => {
    if (!data?.watch?.active || !studio.shown($('.m-watch'))) return;
    const study = studio.study;
    try {
      const { watch } = await api(at('/watch'));
      if (study !== studio.study || !watch) return;
      data.watch = watch;
      $('.m-watch .state').replaceChildren(...told(watch).filter(Boolean));
      const last = status.arrived?.[study];
      if (arrived !== undefined && last !== arrived) refresh();
      arrived = last;
    } catch (error) {
      console.debug(error.message);
    }
  });

  api('/api/manage').then((rights) => {
    allowed = rights.administer;
    root.querySelectorAll('.for-admin').forEach((part) => { part.hidden = !allowed; });
    root.querySelectorAll('.import, .demo, .layouts, .remove').forEach((part) => { part.hidden = !allowed; });
    if (studio.study) open(studio.study);
  }).catch((error) => toast(error.message, 'bad'));
  return { show: open };
}
