// The form of a new run: objective, preset, groups of settings checked at once, a dry run, and the steps that follow.
import { computed, effect, signal } from '@preact/signals';
import { api } from '../../static/api.js';
import { toast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';
import { Fields, Form } from '../../static/form.js';
import { bytes, seconds } from '../../static/format.js';
import { keep, kept } from '../../static/kept.js';
import { fitting, handed } from '../../static/store.js';
import { choices, given, html, show } from '../../static/view.js';

const ADVANCED = 'training-advanced'; // whether the settings are unfolded, stored in the browser

const centred = (/** @type {Values} */ { objective }) => objective.startsWith('pmsacl');
const classed = (/** @type {Values} */ c) => centred(c) || c.objective === 'ccd';
const placed = (/** @type {Values} */ { objective, pos_global }) =>
  /ccd|local/.test(objective) || (objective === 'pmsacl' && pos_global);
const pretrained = (/** @type {Values} */ { encoder }) => encoder.init !== 'random';
const of = (/** @type {string[]} */ keys, /** @type {(values: Values) => boolean} */ when) =>
  Object.fromEntries(keys.map((key) => [key, when]));
/** When a setting has an effect; always, unless listed here. @type {Record<string, (values: Values) => boolean>} */
const WHEN = {
  ...of(['frozen', 'frozen_norm', 'backbone_rate', 'layer_decay'], pretrained),
  ...of(['w_ctr', 'alpha', 'centring', 'positives', 'centres', 'centre_images', 'centre_weak'], centred),
  ...of(['w_var', 'class_views', 'aug_on', 'learn_head'], classed),
  ...of(['w_pos', 'patch', 'pos_on', 'pos_jitter'], placed),
  ...of(['w_con', 'tau'], (c) => c.objective !== 'rotnet'),
  ...of(['k', 'keep_lesions'], (c) => classed(c) || c.objective === 'supcon'),
  w_aug: (c) => classed(c) || /rotnet|csi/.test(c.objective),
  pos_global: (c) => c.objective === 'pmsacl',
  reestimate_every: (c) => centred(c) && c.centres === 're-estimated',
  centre_scale: (c) => centred(c) && /random|equidistant/.test(c.centres),
};

/** Returns the settings that come from the MedMix tab. @param {Values} config */
const augmentation = ({ strong, strong_options, medmix, weak, k }) => ({ strong, strong_options, medmix, weak, k });

/** The detectors to fit after the training, with their settings, and the kind of image that the synthetic lesions of a
 * lesion head are made for: the study's own to begin with. @param {Answers.TrainingForms} forms */
export function detectorForms(forms) {
  const like = signal(Object.keys(forms.lesions)[0]);
  const detectors = Object.entries(forms.detectors).map(([name, { title, form, defaults, lesions }], i) => {
    const groups = form.map((group) => ({ ...group, title }));
    const settings = new Form(groups, defaults, () => {}, { open: 0, prefix: `${name}.` });
    return { name, title, defaults, lesions, settings, usual: i === 0, ticked: signal(i === 0) };
  });
  const ticked = computed(() => detectors.filter((d) => d.ticked.value));
  function follow(kind = fitting.value?.head ?? like.peek()) {
    like.value = kind;
    for (const { lesions, settings } of detectors) settings.set(lesions[kind] || {});
  }
  fitting.held.subscribe(() => fitting.value && follow());

  const box = (/** @type {typeof detectors[number]} */ { name, title, ticked }) => html`<label class="check">
    <input type="checkbox" data-detector=${name} checked=${ticked} onChange=${() => (ticked.value = !ticked.value)} />
    ${title}
  </label>`;
  const Choice = () => html`<div class="detectors">${detectors.map(box)}</div>
    <label class="like" hidden=${!ticked.value.some((d) => Object.keys(d.lesions).length)}
      title="Kind of image that the synthetic lesions of the lesion head are made for">Synthetic lesions for
      <select class="lesions-like" aria-label="Synthetic lesions for" value=${like.value} onChange=${given(follow)}>
        ${choices(Object.entries(forms.lesions))}
      </select>
    </label>`;
  return {
    Choice,
    Settings: () => ticked.value.map((d) => html`<${Fields} key=${d.name} form=${d.settings} />`),
    /** Resets all choices. */
    reset() {
      for (const { settings, defaults, usual, ticked } of detectors) {
        settings.set(defaults);
        ticked.value = usual;
      }
      follow();
    },
    /** Returns the settings of ticked detectors, by name. */
    chosen: () => Object.fromEntries(ticked.value.map((d) => [d.name, d.settings.get()])),
  };
}

/** @param {HTMLElement} root @param {Page.Studio} studio @param {Answers.TrainingForms} forms
 * @param {(run: string) => Promise<void>} started */
export function newRun(root, studio, forms, started) {
  const $ = finder(root);
  const usual = forms.presets[forms.usual];
  const matters = (/** @type {string} */ key) => !WHEN[key] || WHEN[key](config.value);
  const main = new Form(
    forms.form,
    usual,
    (key) => key === 'epochs' && main.set({ steps: 0 }), // which would take precedence
    { matters },
  );
  const encoder = new Form(
    forms.encoder,
    usual.encoder,
    (key, value) => key === 'init' && forms.archs[value] && encoder.set({ arch: forms.archs[value] }), // added with it
    { open: 0, prefix: 'encoder.' },
  );
  const weak = new Form(forms.weak.form, usual.weak, () => {}, { open: 0, prefix: 'weak.' });
  const settings = [main, encoder, weak];
  const detectors = detectorForms(forms);
  /** @type {import('@preact/signals').ReadonlySignal<Values>} */
  const config = computed(() => ({ ...main.values.value, encoder: encoder.values.value, weak: weak.values.value }));
  const name = signal('');
  const taken = signal(''); // what came from the MedMix tab
  const unfolded = signal(kept(ADVANCED, false));
  const wrong = signal(false); // the server refuses the settings

  /** Fills the form. @param {Values} values */
  function fill({ encoder: backbone, weak: views, ...rest }) {
    main.values.value = rest;
    encoder.values.value = backbone;
    weak.values.value = views;
  }
  /** Shows a sentence next to its field; false if it names no field. @param {string | null} sentence */
  const complain = (sentence) => settings.map((form) => form.complain(sentence)).some(Boolean);
  const estimate = (text = '', look = 'dim') => {
    $('.estimate').className = `estimate ${look}`;
    $('.estimate').textContent = text;
  };

  // The server checks with the same class that the training will use; its sentence is shown next to the field.
  async function check() {
    const refused = (/** @type {Error} */ { message }) => message;
    const sentence = await api('/api/training/check', { config: config.peek() }).then(() => null, refused);
    wrong.value = Boolean(sentence);
    if (!complain(sentence)) estimate(sentence ?? '');
  }
  effect(() => {
    config.value;
    estimate();
    const timer = setTimeout(check, 150);
    return () => clearTimeout(timer);
  });
  effect(() => {
    $('.start').disabled = $('.dry').disabled = wrong.value;
  });
  effect(() => {
    $('aside').classList.toggle('open', unfolded.value);
    $('.advanced-turn').setAttribute('aria-expanded', String(unfolded.value));
    keep(ADVANCED, unfolded.value);
  });
  $('.advanced-turn').onclick = () => (unfolded.value = !unfolded.value);

  function preset(/** @type {string} */ chosen) {
    const { objective, seed } = config.peek();
    fill({ ...forms.presets[chosen], objective, seed, ...(taken.value && augmentation(config.peek())) });
  }
  // Settings from the MedMix tab replace the augmentation and the weak views, and nothing else.
  effect(() => {
    if (!handed.value) return;
    const { strong, config: options, weak, preset } = handed.value;
    handed.value = null;
    const part = strong === 'medmix' ? 'medmix' : 'strong_options';
    fill({ ...config.peek(), strong, weak, k: options.k, [part]: options });
    unfolded.value = true;
    taken.value = `✓ ${forms.strong[strong]} ${preset ? `“${preset}” ` : 'settings '}from the MedMix tab`;
  });
  /** Shows the default settings. */
  const reset = () => {
    fill(usual);
    detectors.reset();
  };
  // Another study starts with them: those of the last one need not fit it.
  studio.on('study', () => {
    reset();
    taken.value = name.value = '';
  });

  function Head() {
    const { objective, preset: chosen, strong, medmix } = config.value;
    const pasted = strong === 'medmix' && JSON.stringify(medmix) === JSON.stringify(forms.presets[chosen]?.medmix);
    const lesions = pasted && forms.pasted[chosen] ? ` “${forms.pasted[chosen]}”` : '';
    return html`<label>Objective<select aria-label="Objective" value=${objective}
        onChange=${given((objective) => main.set({ objective }))}>
        ${choices(Object.entries(forms.objectives).map(([name, { title }]) => [name, title]))}
      </select></label>
      <label>Preset<select class="preset" aria-label="Training preset" value=${chosen} onChange=${given(preset)}>
        ${choices(Object.keys(forms.presets).map((name) => [name, noted(name)]))}
      </select></label>
      <label>Name<input type="text" class="name" maxlength="100" placeholder="named automatically" autocomplete="off"
        value=${name.value} onInput=${given((text) => (name.value = text))} /></label>
      <p class="dim lesions">Strong augmentation: ${forms.strong[strong] || strong}${lesions}</p>
      ${taken.value && html`<p class="handed">${taken.value}</p>`}`;
  }
  const noted = (/** @type {string} */ name) => (forms.notes[name] ? `${name}: ${forms.notes[name]}` : name);
  show($('.head.advanced'), Head);
  show($('.forms'), () => [settings.map((form) => html`<${Fields} form=${form} />`), html`<${detectors.Settings} />`]);
  show($('.then div'), detectors.Choice);

  /** Makes a button work; meanwhile it is off and says so.
   * @param {HTMLButtonElement} button @param {string} doing @param {() => Promise<void>} work */
  function working(button, doing, work) {
    const words = [...button.childNodes];
    button.onclick = async () => {
      button.disabled = true;
      button.textContent = doing;
      try {
        if (!studio.study) throw new Error('Choose a study first.');
        await work();
      } catch (error) {
        if (!complain(error.message)) toast(error.message, 'bad');
      } finally {
        button.disabled = wrong.value;
        button.replaceChildren(...words);
      }
    };
  }
  working($('.dry'), 'Trying…', async () => {
    estimate('A few real steps on this device…');
    const body = { study: studio.study, config: config.peek() };
    const r = await api('/api/training/dry', body).finally(estimate);
    const steps = `${r.steps} steps on ${r.images} images`;
    const time = `${seconds(r.seconds_epoch)} per epoch, ${seconds(r.seconds_total)} in total (${steps})`;
    const memory = `${bytes(r.memory)} of memory on ${r.device}`;
    estimate(r.seconds_step == null ? r.message : `${time}, ${memory}. ${r.message}`, r.fits ? 'good' : 'bad');
    $('.estimate').dataset.done = String(Date.now());
  });
  async function start() {
    const { study } = studio;
    const asked = { study, config: config.peek(), name: name.value.trim(), detectors: detectors.chosen() };
    const made = await api('/api/training/start', asked);
    name.value = '';
    await started(made.run);
  }
  working($('.start'), 'Queueing…', start);
  // The three buttons: a first look without training, the default training, and the tables of the paper.
  working($('.go-look'), 'Queueing…', async () => {
    await api(`/api/study/${studio.study}/look`, {});
    await studio.renewStatus();
  });
  working($('.go-train'), 'Queueing…', () => {
    reset();
    return start();
  });
  $('.go-report').onclick = () => studio.openTab('report');

  /** Loads a run's configuration into the form. @param {Answers.Run} run */
  return (run) => {
    if (run.kind !== 'pretrain' || !run.config.epochs) return toast('Only a training can be cloned into the settings.');
    fill({ ...run.config, marks: undefined }); // those of this study at the time of the start
    unfolded.value = true;
    taken.value = '';
    name.value = `${run.name} changed`;
    toast(`Settings of “${run.name}” loaded.`, 'good');
  };
}
