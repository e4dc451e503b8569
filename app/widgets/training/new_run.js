// The form of a new run: objective, preset, groups of settings checked at once, a dry run, and the chain that follows.
import { Form } from '/page/static/form.js';
import { lesionsLike } from './small.js';

export function newRun(root, studio, forms, started) {
  const { el, api, toast } = studio;
  const $ = (selector) => root.querySelector(selector);
  let config = structuredClone(forms.presets.quick || Object.values(forms.presets)[0]);

  $('.objective').append(...Object.entries(forms.objectives).map(([name, o]) => el('option', { value: name }, o.title)));
  $('.preset').append(...Object.keys(forms.presets).map((name) => el('option', { value: name }, name)));
  const boxes = Object.fromEntries(Object.entries(forms.detectors).map(([name, d], i) => [name, el('input', { type: 'checkbox', checked: i === 0, 'data-detector': name })]));
  $('.detectors').append(...Object.entries(forms.detectors).map(([name, d]) => el('label', { class: 'check' }, boxes[name], d.title)));

  const main = new Form(forms.form, config, (key, value) => { config[key] = value; changed(); }, { open: 1 });
  const encoder = new Form(forms.encoder, config.encoder, (key, value) => { config.encoder[key] = value; changed(); }, { open: 0, prefix: 'encoder.' });
  const weak = new Form(forms.weak.form, config.weak, (key, value) => { config.weak[key] = value; changed(); }, { open: 0, prefix: 'weak.' });
  const options = {}; // of the detectors
  const detectorForms = Object.entries(forms.detectors).map(([name, d]) => {
    options[name] = structuredClone(d.defaults);
    return [name, new Form(d.form.map((g) => ({ ...g, title: d.title })), options[name], (key, value) => { options[name][key] = value; }, { open: 0, prefix: `${name}.` })];
  });
  const like = lesionsLike(forms);
  like.onchange = () => {
    for (const [name, made] of detectorForms) {
      const preset = forms.detectors[name].lesions[like.value];
      if (preset) made.set(Object.assign(options[name], structuredClone(preset)));
    }
  };
  $('.detectors').after(el('label', { class: 'like', title: 'What the fake lesions are made for that the lesion head learns from' }, 'lesions as in', like));
  const lesions = el('p', { class: 'dim lesions' });
  $('.forms').append(lesions, main.element, encoder.element, weak.element, el('h3', { class: 'of-detectors' }, 'Detectors'), ...detectorForms.map(([, made]) => made.element));

  function put() {
    $('.objective').value = config.objective;
    $('.preset').value = config.preset in forms.presets ? config.preset : '';
    main.set(config);
    encoder.set(config.encoder);
    weak.set(config.weak);
    lesions.textContent = `Strong augmentation: ${forms.strong[config.strong] || config.strong}`;
  }
  let timer = 0;
  let wrong = null;
  function changed() {
    clearTimeout(timer);
    $('.estimate').textContent = '';
    timer = setTimeout(check, 150);
  }
  // The server checks with the very class that the training will use; its sentence goes beside the field.
  async function check() {
    wrong = null;
    try {
      await api('/api/training/check', { config });
    } catch (error) {
      wrong = error.message;
    }
    const found = [main, encoder, weak].map((f) => f.complain(wrong)).some(Boolean);
    $('.start').disabled = $('.dry').disabled = Boolean(wrong);
    if (wrong && !found) $('.estimate').textContent = wrong;
    root.dataset.checked = String(Number(root.dataset.checked || 0) + 1);
  }
  $('.objective').onchange = (event) => { config.objective = event.target.value; changed(); };
  $('.preset').onchange = (event) => {
    const keep = { objective: config.objective, seed: config.seed };
    const handed = $('.handed').hidden ? {} : { strong: config.strong, strong_options: config.strong_options, medmix: config.medmix, weak: config.weak, k: config.k };
    config = { ...structuredClone(forms.presets[event.target.value]), ...keep, ...handed };
    put();
    changed();
  };

  // What the MedMix tab hands over replaces the augmentation and the weak views, and nothing else.
  function take(handed) {
    if (!handed) return;
    studio.handed = null;
    config.strong = handed.strong;
    if (handed.strong === 'medmix') config.medmix = structuredClone(handed.config);
    else config.strong_options = structuredClone(handed.config);
    config.weak = structuredClone(handed.weak);
    config.k = handed.config.k;
    put();
    $('.handed').hidden = false;
    $('.handed').textContent = `✓ ${forms.strong[handed.strong]} ${handed.preset ? `“${handed.preset}” ` : 'settings '}from the MedMix tab`;
    check();
  }
  studio.on('train-with', take);
  take(studio.handed);

  const chosen = () => Object.fromEntries(Object.entries(boxes).filter(([, b]) => b.checked).map(([name]) => [name, options[name]]));
  async function busy(button, text, work) {
    const was = button.textContent;
    button.disabled = true;
    button.textContent = text;
    try {
      return await work();
    } catch (error) {
      if (![main, encoder, weak].map((f) => f.complain(error.message)).some(Boolean)) toast(error.message, 'bad');
      return null;
    } finally {
      button.disabled = Boolean(wrong);
      button.textContent = was;
    }
  }
  $('.dry').onclick = () => busy($('.dry'), 'Trying…', async () => {
    if (!studio.study) throw new Error('Choose a study first.');
    $('.estimate').className = 'estimate dim';
    $('.estimate').textContent = 'A few real steps on this device…';
    const r = await api('/api/training/dry', { study: studio.study, config }).catch((e) => { $('.estimate').textContent = ''; throw e; });
    $('.estimate').className = `estimate ${r.fits ? 'good' : 'bad'}`;
    $('.estimate').textContent = r.seconds_step == null ? r.message
      : `${studio.seconds(r.seconds_epoch)} an epoch, ${studio.seconds(r.seconds_total)} in all (${r.steps} steps on ${r.images} images), ${studio.bytes(r.memory)} of memory on ${r.device}. ${r.message}`;
    $('.estimate').dataset.done = String(Date.now());
  });
  $('.start').onclick = () => busy($('.start'), 'Queueing…', async () => {
    if (!studio.study) throw new Error('Choose a study first.');
    const made = await api('/api/training/start', { study: studio.study, config, name: $('.name').value.trim(), detectors: chosen() });
    $('.name').value = '';
    await started(made);
  });

  put();
  check();
  return {
    // Puts a run's whole configuration into the form.
    fill(run) {
      if (run.kind !== 'pretrain' || !run.config.epochs) { toast('Only trainings can be cloned into this form.'); return; }
      config = structuredClone(run.config);
      $('.handed').hidden = true;
      $('.name').value = `${run.name} changed`;
      put();
      check();
      toast(`The form holds the settings of “${run.name}”.`, 'good');
    },
  };
}
