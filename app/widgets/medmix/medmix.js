// The MedMix tab: controls on the left, classes A_0..A_k by sample on the right, repainted as a slider moves.
import { computed, effect, signal } from '@preact/signals';
import { api, fetched } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { closing, download, dropZone, finder, options } from '../../static/dom.js';
import { Form } from '../../static/form.js';
import { fitting, handed, started, study } from '../../static/store.js';
import { button, html, show } from '../../static/view.js';
import { fetchGrid, Grids, grids } from './grid.js';
import * as match from './match.js';
import { measure, measuring, Numbers, numbers, waited } from './measured.js';
import * as presets from './presets.js';
import * as room from './scene.js';

/** Describes the images' aspect ratio: training squeezes every image to a square. @param {import('./grid.js').Grid} grid */
const shape = ({ aspect }) => {
  if (aspect == null) return 'different aspect ratios, shown squeezed to squares as in training';
  return Math.abs(aspect - 1) < 0.02 ? 'square' : 'original aspect ratio; training squeezes images to squares';
};

const ready = computed(() => Boolean(study.value || room.own.value.drop)); // there is something to paste lesions into
const said = signal(/** @type {any} */ ('')); // below the picture

/** The panel next to the picture. */
function Docked() {
  if (!room.docked.value) return null;
  const [title, Contents] =
    room.docked.value === 'match' ? ['Match lesions', match.Panel] : ['Before training', Numbers];
  const close = () => {
    room.docked.value = null;
  };
  const done = room.docked.value === 'numbers' && numbers.value ? 'yes' : null;
  return html`<div class="panel ${room.docked}" role="region" aria-label=${title} data-done=${done}>
    <div class="top"><h2>${title}</h2>${button('✕', close, { 'aria-label': 'Close' })}</div>
    <${Contents} />
  </div>`;
}

/** @param {HTMLElement} root @param {import('../../static/types').Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const [forms] = await Promise.all([api('/api/medmix/forms'), presets.load()]);
  room.kinds.value = forms.strong;

  // Opens with the preset for the kind of image, else with that of the default training, and follows the
  // kind of image until a setting is changed by hand.
  let offered = '';
  fitting.held.subscribe(() => {
    const name = fitting.value?.medmix || 'varied';
    if (offered && (name === offered || presets.chosen.value?.name !== offered)) return;
    offered = name;
    const all = presets.presets.value;
    room.put(all.find((p) => p.name === name) || all[0]);
  });

  // Controls -----------------------------------------------------------------------------------
  $('.strong').append(...options(Object.entries(forms.strong).map(([name, k]) => [name, k.title])));
  const follow = () => {
    room.weakConfig.value = weakForm.get();
  };
  const weakForm = new Form(forms.weak.form, forms.weak.presets.gentle, follow, { open: 0, prefix: 'weak.' });
  follow();
  $('.weak-controls').append(weakForm.element);
  /** @type {Form} of the augmentation on screen */
  let form;
  let shown = '';
  /** @type {Record<string, Values>} the latest settings of each augmentation */
  const latest = {};
  effect(() => {
    const { strong, config } = room.settings.value;
    latest[strong] = config;
    if (strong === shown) {
      if (!presets.same(form.values.peek(), config)) form.set(config); // not while a control of it is moved
      return;
    }
    form = new Form(forms.strong[strong].form, config, () => room.put({ strong, config: form.get() }), { open: 2 });
    $('.controls').replaceChildren(form.element);
    $('.strong').value = shown = strong;
  });
  $('.strong').onchange = () => {
    const strong = $('.strong').value;
    room.put({ strong, config: latest[strong] || forms.strong[strong].defaults });
  };
  $('.train').onclick = () => {
    const preset = presets.chosen.value;
    handed.value = { ...room.settings.value, weak: room.weakConfig.value, preset: preset ? presets.label(preset) : '' };
    studio.openTab('training');
  };

  // Presets ------------------------------------------------------------------------------------
  closing($('.presets'));
  $('.presets').ontoggle = () => orToast(presets.picture($('.presets')));
  show($('.presets summary'), presets.Chosen);
  show($('.presets .cards'), presets.Cards);
  show($('.beside'), presets.Beside);
  $('.save').onclick = () => orToast(presets.save());
  $('.remove-preset').onclick = () => orToast(presets.remove());
  $('.export').onclick = () => orToast(presets.exported());
  chooser($('.import'), $('.yaml'), ([file]) => presets.imported(file));

  // The picture --------------------------------------------------------------------------------
  show($('.sheet'), Grids, { stage: $('.stage') });
  show($('.match-rows'), match.Rows);
  show($('.docked'), Docked);
  show($('.status'), () => said.value);
  for (const [name, on] of Object.entries({ outlines: room.outlines, sources: room.sources, weak: room.weak }))
    $(`.${name}`).onchange = () => {
      on.value = $(`.${name}`).checked;
    };
  $('.side').onchange = () => {
    room.side.value = Number($('.side').value);
  };
  $('.other').onclick = () => {
    room.seed.value += 1;
  };
  $('.download').onchange = () => {
    const kind = $('.download').value;
    $('.download').value = '';
    const body = { scene: room.scene.value, outlines: room.outlines.value, title: '' };
    const name = `${body.scene.strong}-classes.${kind}`;
    const save = async () => download(await (await fetched(`/api/medmix/figure.${kind}`, body)).blob(), name);
    orToast(save());
  };
  $('.match-open').onclick = () => orToast(match.open());
  $('.measure').onclick = () => orToast(measure());

  /** Shows the reader's own images instead of the study's; they are not stored. @param {File[]} files */
  const take = async (files) => {
    if (!files.length) return;
    const { drop } = await api('/api/study/drop', {});
    for (const body of files)
      await api(`/api/study/drop/${drop}?path=${encodeURIComponent(body.name)}`, undefined, { method: 'PUT', body });
    room.own.value = { drop, files: files.map((file) => file.name) };
  };
  dropZone($('.stage'), (event) => orToast(take([...(event.dataTransfer?.files || [])])));
  chooser($('.own'), $('.own-files'), take);
  $('.drop-off').onclick = leave;
  study.subscribe(leave);

  effect(() => {
    const preset = presets.chosen.value;
    $('.remove-preset').disabled = !preset || preset.built_in;
    $('.measure').disabled = measuring.value !== null;
    $('.drop-off').hidden = !room.own.value.drop;
    $('.stage .none').hidden = !started.value || ready.value;
    $('.sheet').hidden = !ready.value;
  });

  /** @type {{asked: string, grid: import('./grid.js').Grid} | null} the latest grid of the compared settings */
  let compared = null;
  async function repaint() {
    const from = performance.now();
    const asked = room.scene.value;
    const { title = '', ...others } = presets.beside.value || {};
    const cells = room.SAMPLES * (Number(asked.config.k || 3) + 1) * (title ? 2 : 1);
    const what = { kind: 'grid', words: `Making ${cells} images`, amount: cells * asked.size ** 2 };
    const drawn = await waited(said, what, async (signal) => {
      const now = { title: 'now', grid: await fetchGrid(asked, signal) };
      if (!title) return [now];
      // Fetched again only for other samples.
      const wanted = { ...asked, ...others };
      if (compared?.asked !== JSON.stringify(wanted))
        compared = { asked: JSON.stringify(wanted), grid: await fetchGrid(wanted, signal) };
      return [now, { title, grid: compared.grid }];
    });
    if (!drawn) {
      due = false;
      said.value = 'Stopped: the picture shows the earlier settings.';
      return;
    }
    form.complain('');
    grids.value = drawn;
    const ms = Math.round(performance.now() - from);
    root.dataset.repaint = String(ms);
    root.dataset.painted = String(Number(root.dataset.painted || 0) + 1);
    const images = asked.drop ? 'Your own images, not stored' : 'Same images and random draws until you change them';
    said.value = `${images} · ${shape(drawn[0].grid)} · repainted in ${ms} ms`;
  }
  // One request at a time; meanwhile only the newest change waits, so that a slider never queues up work.
  let busy = false;
  let due = false;
  async function paint() {
    due = true;
    if (busy) return;
    busy = true;
    while (due) {
      await null; // what changes together is painted once
      due = false;
      await repaint().catch(({ message }) => form.complain(message) || toast(message, 'bad'));
    }
    busy = false;
  }
  said.value = 'Pasting lesions into normal images…';
  effect(() => {
    room.scene.value;
    presets.beside.value;
    if (ready.value) paint();
  });
}

/** Shows the study's images again. */
function leave() {
  if (room.own.value.drop) room.own.value = { drop: '', files: [] };
}

/** Makes a button ask for files. @param {HTMLButtonElement} button @param {HTMLInputElement} input
 * @param {(files: File[]) => Promise<void>} take */
function chooser(button, input, take) {
  button.onclick = () => input.click();
  input.onchange = () => {
    orToast(take([...(input.files || [])]));
    input.value = '';
  };
}
