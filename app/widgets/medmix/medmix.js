// The MedMix tab: controls on the left, classes A_0..A_k by sample on the right, repainted as a slider moves.
import { Form } from '/page/static/form.js';
import { Sheet, fetchGrid } from './grid.js';
import { showNumbers, waitForNumbers } from './numbers.js';
import { Presets, hand, label } from './presets.js';

export async function mount(root, studio) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  const tell = (promise) => promise.catch((e) => toast(e.message, 'bad'));
  const { strong: kinds, weak } = await api('/api/medmix/forms');
  let strong = 'medmix';
  let form = null;
  let seed = 1;
  let frozen = null; // settings kept to be seen beside
  let drop = ''; // images dropped here instead of the study's
  const kept = {}; // settings of each augmentation while another is looked at

  // Controls -----------------------------------------------------------------------------------
  $('.strong').append(...Object.entries(kinds).map(([name, k]) => el('option', { value: name }, k.title)));
  const weakForm = new Form(weak.form, weak.presets.gentle, () => paint(), { open: 0, prefix: 'weak.' });
  $('.weak-controls').append(weakForm.element);
  const presets = new Presets(root, {
    now: () => ({ strong, config: form.get() }),
    filled: fillBeside,
    read: (kind, config) => { build(kind, config); paint(); },
  });
  function build(name, values) {
    const defaults = { ...kinds[name].defaults, ...(values || kept[name] || {}) };
    if (form && name === strong) form.set(defaults);
    else {
      if (form) kept[strong] = form.get();
      strong = name;
      $('.strong').value = name;
      form = new Form(kinds[name].form, defaults, () => { presets.show(); paint(); }, { open: 2 });
      $('.controls').replaceChildren(form.element);
    }
    presets.fill();
  }
  function fillBeside() {
    const select = $('.beside-choice');
    const was = select.value;
    select.replaceChildren(el('option', { value: '' }, 'nothing'), el('option', { value: 'now' }, 'this setting, kept'), ...presets.options());
    select.value = [...select.options].some((o) => o.value === was) ? was : '';
    if (!select.value) frozen = null;
  }
  $('.strong').onchange = (event) => { build(event.target.value); paint(); };
  $('.beside-choice').onchange = (event) => {
    const v = event.target.value;
    frozen = v === '' ? null : v === 'now' ? form.get() : presets.list[Number(v)].config;
    paint();
  };
  $('.train').onclick = () => {
    const p = presets.current();
    studio.handed = { strong, config: form.get(), weak: weakForm.get(), preset: p ? label(p) : '' };
    studio.openTab('training');
    studio.emit('train-with', studio.handed);
  };

  // The picture --------------------------------------------------------------------------------
  const sheet = new Sheet($('.stage'), $('.sheet'), () => ({ outlines: $('.outlines').checked, sources: $('.sources').checked }));
  const scene = (config, samples) => ({
    study: studio.study || '', strong, config, seed, samples, size: Number($('.side').value), drop,
    weak: $('.weak').checked, weak_config: weakForm.get(),
  });
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
      for (const config of settings) grids.push(await fetchGrid(scene(config, frozen ? 3 : 6)));
      form.complain('');
      sheet.show(grids);
      const ms = Math.round(performance.now() - from);
      root.dataset.repaint = ms;
      root.dataset.painted = String(Number(root.dataset.painted || 0) + 1);
      $('.told').textContent = `${drop ? 'Your own images, which are not kept' : 'Same images and draws until you ask for others'} · repainted in ${ms} ms`;
    } catch (error) {
      if (!form.complain(error.message)) toast(error.message, 'bad');
    } finally {
      busy = false;
      if (again) { again = false; paint(); }
    }
  }
  for (const name of ['.outlines', '.sources']) $(name).onchange = () => sheet.mark();
  for (const name of ['.weak', '.side']) $(name).onchange = () => paint();
  $('.other').onclick = () => { seed += 1; paint(); };
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

  // Images of one's own, dropped or chosen ---------------------------------------------------------
  const stage = $('.stage');
  const take = (files) => tell((async () => {
    if (!files.length) return;
    const token = (await api('/api/study/drop', {})).drop;
    for (const file of files) await api(`/api/study/drop/${token}?path=${encodeURIComponent(file.name)}`, undefined, { method: 'PUT', body: file });
    drop = token;
    $('.drop-off').hidden = false;
    await paint();
  })());
  const leave = () => { drop = ''; $('.drop-off').hidden = true; };
  stage.ondragover = (event) => { event.preventDefault(); stage.classList.add('over'); };
  stage.ondragleave = () => stage.classList.remove('over');
  stage.ondrop = (event) => {
    event.preventDefault();
    stage.classList.remove('over');
    take([...event.dataTransfer.files]);
  };
  $('.own').onclick = () => $('.own-files').click();
  $('.own-files').onchange = (event) => { take([...event.target.files]); event.target.value = ''; };
  $('.drop-off').onclick = () => { leave(); paint(); };

  // Numbers beside the picture -----------------------------------------------------------------
  $('.measure').onclick = () => tell((async () => {
    if (!studio.study) throw new Error('The numbers need a study: choose or import one.');
    const panel = $('.numbers.panel');
    waitForNumbers(panel);
    $('.measure').disabled = true;
    try {
      showNumbers(panel, await api('/api/medmix/probe', { scene: { ...scene(form.get(), 6), drop: '' }, encoder: 'latest' }));
    } catch (error) {
      panel.hidden = true;
      throw error;
    } finally {
      $('.measure').disabled = false;
    }
  })());

  studio.on('study', () => { leave(); paint(); });
  await presets.load();
  build('medmix', presets.named('quick').config);
  if (studio.started) paint();
  else studio.on('started', paint);
}
