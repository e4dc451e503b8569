// The form of a new run: objective, preset, groups of settings checked at once, a dry run, and the steps that follow.
import { effect } from '@preact/signals';
import { api } from '../../static/api.js';
import { toast } from '../../static/dialogs.js';
import { el, finder, options } from '../../static/dom.js';
import { Form } from '../../static/form.js';
import { bytes, seconds } from '../../static/format.js';
import { handed } from '../../static/store.js';
import { detectorForms } from './detector_forms.js';

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

/** @param {HTMLElement} root @param {Page.Studio} studio @param
 * {Answers.TrainingForms} forms @param {(made: {run: string}) => Promise<void>} started */
export function newRun(root, studio, forms, started) {
  const $ = finder(root);
  const usual = () => structuredClone(forms.presets[forms.usual] || Object.values(forms.presets)[0]);
  /** @type {Values} */
  let config = usual();
  const objectives = Object.entries(forms.objectives).map(([name, { title }]) => /** @type {const} */ ([name, title]));
  $('.objective').append(...options(objectives));
  const noted = (/** @type {string} */ name) => (forms.notes[name] ? `${name}: ${forms.notes[name]}` : name);
  $('.preset').append(...options(Object.keys(forms.presets).map((name) => [name, noted(name)])));

  const set = (/** @type {() => Values} */ part) => (/** @type {string} */ key, /** @type {any} */ value) => {
    part()[key] = value;
    if (key === 'epochs' && config.steps) {
      config.steps = 0; // which would take precedence
      main.set(config);
    }
    const arch = key === 'init' && forms.archs[value]; // a file added with its backbone selects it
    if (arch) encoder.set(Object.assign(config.encoder, { arch }));
    changed();
  };
  /** @param {Answers.Group[]} groups @param {() => Values} part @param {string} [prefix] */
  const formOf = (groups, part, prefix) => new Form(groups, part(), set(part), prefix ? { open: 0, prefix } : {});
  const main = formOf(forms.form, () => config);
  const encoder = formOf(forms.encoder, () => config.encoder, 'encoder.');
  const weak = formOf(forms.weak.form, () => config.weak, 'weak.');
  const detectors = detectorForms(forms);
  const lesions = el('p', { class: 'dim lesions' });
  $('.detectors').append(...detectors.boxes);
  $('.detectors').after(detectors.like);
  $('.handed').before(lesions);
  $('.forms').append(main.element, encoder.element, weak.element, ...detectors.forms);
  /** Shows a sentence next to its field; false if it names no field. @param {string | null} sentence */
  const complain = (sentence) => [main, encoder, weak].map((form) => form.complain(sentence)).some(Boolean);

  function put() {
    $('.objective').value = config.objective;
    $('.preset').value = config.preset in forms.presets ? config.preset : '';
    main.set(config);
    encoder.set(config.encoder);
    weak.set(config.weak);
    main.only(WHEN, config);
    const medmix = JSON.stringify(forms.presets[config.preset]?.medmix);
    const usual = config.strong === 'medmix' && JSON.stringify(config.medmix) === medmix;
    const name = (usual && forms.pasted[config.preset]) || '';
    lesions.textContent = `Strong augmentation: ${forms.strong[config.strong] || config.strong}${name && ` “${name}”`}`;
  }
  const estimate = (/** @type {string} */ text, look = 'dim') => {
    $('.estimate').className = `estimate ${look}`;
    $('.estimate').textContent = text;
  };
  let timer = 0;
  /** @type {string | null} the server's error about the settings */
  let wrong = null;
  function changed() {
    main.only(WHEN, config);
    clearTimeout(timer);
    estimate('');
    timer = setTimeout(check, 150);
  }
  // The server checks with the same class that the training will use; its sentence is shown next to the field.
  async function check() {
    wrong = null;
    try {
      await api('/api/training/check', { config });
    } catch (error) {
      wrong = error.message;
    }
    const found = complain(wrong);
    $('.start').disabled = $('.dry').disabled = Boolean(wrong);
    if (wrong && !found) estimate(wrong);
    root.dataset.checked = String(Number(root.dataset.checked || 0) + 1);
  }
  $('.objective').onchange = () => {
    config.objective = $('.objective').value;
    changed();
  };
  $('.preset').onchange = () => {
    const keep = { objective: config.objective, seed: config.seed };
    const taken = $('.handed').hidden ? {} : augmentation(config);
    config = { ...structuredClone(forms.presets[$('.preset').value]), ...keep, ...taken };
    put();
    changed();
  };

  const unfold = (/** @type {boolean} */ open) => {
    $('aside').classList.toggle('open', open);
    $('.advanced-turn').setAttribute('aria-expanded', String(open));
    localStorage.setItem(ADVANCED, open ? 'open' : '');
  };
  $('.advanced-turn').onclick = () => unfold(!$('aside').classList.contains('open'));
  unfold(Boolean(localStorage.getItem(ADVANCED)));

  // Settings from the MedMix tab replace the augmentation and the weak views, and nothing else.
  effect(() => {
    if (!handed.value) return;
    const { strong, config: options, weak, preset } = handed.value;
    handed.value = null;
    config[strong === 'medmix' ? 'medmix' : 'strong_options'] = structuredClone(options);
    Object.assign(config, { strong, weak: structuredClone(weak), k: options.k });
    put();
    unfold(true);
    $('.handed').hidden = false;
    $('.handed').textContent = `✓ ${forms.strong[strong]} ${preset ? `“${preset}” ` : 'settings '}from the MedMix tab`;
    check();
  });

  /** @param {HTMLButtonElement} button @param {string} text while it works @param {() => Promise<void>} work */
  async function busy(button, text, work) {
    const was = [...button.childNodes];
    button.disabled = true;
    button.textContent = text;
    try {
      if (!studio.study) throw new Error('Choose a study first.');
      await work();
    } catch (error) {
      if (!complain(error.message)) toast(error.message, 'bad');
    } finally {
      button.disabled = Boolean(wrong);
      button.replaceChildren(...was);
    }
  }
  $('.dry').onclick = () =>
    busy($('.dry'), 'Trying…', async () => {
      estimate('A few real steps on this device…');
      const r = await api('/api/training/dry', { study: studio.study, config }).catch((e) => {
        estimate('');
        throw e;
      });
      const steps = `${r.steps} steps on ${r.images} images`;
      const time = `${seconds(r.seconds_epoch)} per epoch, ${seconds(r.seconds_total)} in total (${steps})`;
      const memory = `${bytes(r.memory)} of memory on ${r.device}`;
      estimate(r.seconds_step == null ? r.message : `${time}, ${memory}. ${r.message}`, r.fits ? 'good' : 'bad');
      $('.estimate').dataset.done = String(Date.now());
    });
  /** @param {HTMLButtonElement} button */
  const start = (button) =>
    busy(button, 'Queueing…', async () => {
      const asked = { study: studio.study, config, name: $('.name').value.trim(), detectors: detectors.chosen() };
      const made = await api('/api/training/start', asked);
      $('.name').value = '';
      await started(made);
    });
  $('.start').onclick = () => start($('.start'));
  // The three buttons: a first look without training, the default training, and the tables of the paper.
  $('.go-train').onclick = () => {
    config = usual();
    detectors.reset();
    put();
    return start($('.go-train'));
  };
  $('.go-look').onclick = () =>
    busy($('.go-look'), 'Queueing…', async () => {
      await api(`/api/study/${studio.study}/look`, {});
      await studio.renewStatus();
    });
  $('.go-report').onclick = () => studio.openTab('report');

  // Another study starts with the default settings: those of the last one need not fit it.
  studio.on('study', () => {
    config = usual();
    detectors.reset();
    $('.handed').hidden = true;
    $('.name').value = '';
    estimate('');
    put();
    check();
  });

  put();
  check();
  return {
    /** Loads a run's configuration into the form. @param {Answers.Run} run */
    fill(run) {
      if (run.kind !== 'pretrain' || !run.config.epochs) {
        toast('Only a training can be cloned into the settings.');
        return;
      }
      config = structuredClone(run.config);
      delete config.marks; // those of this study at the time of the start
      unfold(true);
      $('.handed').hidden = true;
      $('.name').value = `${run.name} changed`;
      put();
      check();
      toast(`Settings of “${run.name}” loaded.`, 'good');
    },
  };
}
