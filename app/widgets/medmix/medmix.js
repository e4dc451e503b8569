// The MedMix tab: controls on the left, classes A_0..A_k by sample on the right, repainted as a slider moves.
import { signal } from '@preact/signals';
import { api, fetched } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { download, dropZone, el, finder } from '../../static/dom.js';
import { Form } from '../../static/form.js';
import { fitting, handed } from '../../static/store.js';
import { fetchGrid, sheet } from './grid.js';
import { Match } from './match.js';
import { Numbers, waited } from './measured.js';
import { Beside, label, Presets } from './presets.js';

const SAMPLES = 6;

/** Describes the images' aspect ratio: training squeezes every image to a square. @param {import('./grid.js').Grid} grid */
const shape = ({ aspect }) => {
  if (aspect == null) return 'different aspect ratios, shown squeezed to squares as in training';
  return Math.abs(aspect - 1) < 0.02 ? 'square' : 'original aspect ratio; training squeezes images to squares';
};

/** @param {HTMLElement} root @param {import('../../static/types').Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  const { strong: kinds, weak } = await api('/api/medmix/forms');
  let strong = 'medmix';
  /** @type {Form} of that augmentation; made by `build` below */
  let form = /** @type {any} */ (null);
  let seed = 1;
  /** @type {Record<string, Values>} settings of each augmentation while another is shown */
  const kept = {};

  // Controls -----------------------------------------------------------------------------------
  $('.strong').append(...Object.entries(kinds).map(([name, k]) => el('option', { value: name }, k.title)));
  const weakForm = new Form(weak.form, weak.presets.gentle, () => paint(), { open: 0, prefix: 'weak.' });
  $('.weak-controls').append(weakForm.element);
  const presets = new Presets(root, {
    now: () => ({ strong, config: form.get() }),
    filled: () => beside.fill(),
    read: (kind, config) => {
      build(kind, config);
      paint();
    },
    scene: () => scene(),
  });
  const now = () => ({ strong, config: form.get(), weak_config: weakForm.get() });
  const beside = new Beside(root, presets, now, () => paint());
  /** @param {string} name of an augmentation @param {Values} [values] */
  function build(name, values) {
    const defaults = { ...kinds[name].defaults, ...(values || kept[name] || {}) };
    if (form && name === strong) form.set(defaults);
    else {
      if (form) kept[strong] = form.get();
      strong = name;
      $('.strong').value = name;
      form = new Form(
        kinds[name].form,
        defaults,
        () => {
          presets.show();
          paint();
        },
        { open: 2 },
      );
      $('.controls').replaceChildren(form.element);
    }
    presets.fill();
  }
  $('.strong').onchange = (/** @type {any} */ event) => {
    build(event.target.value);
    paint();
  };
  $('.train').onclick = () => {
    const p = presets.current();
    handed.value = { strong, config: form.get(), weak: weakForm.get(), preset: p ? label(p) : '' };
    studio.openTab('training');
  };

  // The picture --------------------------------------------------------------------------------
  const marks = signal({ outlines: true, sources: false });
  const shown = sheet($('.stage'), $('.sheet'), marks);
  const own = ownImages(root, async () => {
    await paint();
    matching.dropped();
  });
  const scene = () => ({
    study: studio.study || '',
    strong,
    config: form.get(),
    seed,
    samples: SAMPLES,
    size: Number($('.side').value),
    drop: own.state.drop,
    weak: $('.weak').checked,
    weak_config: weakForm.get(),
  });
  // One request at a time; meanwhile only the newest change waits, so that a slider never queues up work.
  let busy = false;
  let again = false;
  async function paint() {
    const ready = Boolean(studio.study || own.state.drop);
    $('.stage .none').hidden = ready;
    $('.sheet').hidden = !ready;
    if (!ready || !form) return;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    if (!root.dataset.painted) $('.status').textContent = 'Pasting lesions into normal images…';
    const from = performance.now();
    try {
      const asked = scene();
      numbers.follow(asked);
      const cells = SAMPLES * (Number(asked.config.k || 3) + 1) * (beside.kept ? 2 : 1);
      const what = { kind: 'grid', words: `Making ${cells} images`, amount: cells * asked.size ** 2 };
      const grids = await waited($('.status'), what, async (signal) => [
        { title: 'now', grid: await fetchGrid(asked, signal) },
        ...(beside.kept ? [{ title: beside.kept.title, grid: await beside.grid(asked, signal) }] : []),
      ]);
      if (!grids) {
        again = false;
        $('.status').textContent = 'Stopped: the picture shows the earlier settings.';
        return;
      }
      form.complain('');
      shown.value = { grids, samples: beside.kept ? SAMPLES / 2 : SAMPLES };
      matching.painted(grids[0].grid);
      const ms = Math.round(performance.now() - from);
      root.dataset.repaint = String(ms);
      root.dataset.painted = String(Number(root.dataset.painted || 0) + 1);
      const images = own.state.drop
        ? 'Your own images, not stored'
        : 'Same images and random draws until you change them';
      $('.status').textContent = `${images} · ${shape(grids[0].grid)} · repainted in ${ms} ms`;
    } catch (error) {
      if (!form.complain(error.message)) toast(error.message, 'bad');
    } finally {
      busy = false;
      if (again) {
        again = false;
        paint();
      }
    }
  }
  for (const name of ['.outlines', '.sources'])
    $(name).onchange = () => {
      marks.value = { outlines: $('.outlines').checked, sources: $('.sources').checked };
    };
  for (const name of ['.weak', '.side']) $(name).onchange = () => paint();
  $('.other').onclick = () => {
    seed += 1;
    paint();
  };
  $('.download').onchange = (/** @type {any} */ event) => {
    const kind = event.target.value;
    event.target.value = '';
    if (!kind) return;
    const body = { scene: scene(), outlines: marks.value.outlines, title: '' };
    const save = async () =>
      download(await (await fetched(`/api/medmix/figure.${kind}`, body)).blob(), `${strong}-classes.${kind}`);
    orToast(save());
  };

  const matching = new Match(root, {
    study: () => studio.study,
    config: () => form.get(),
    put: (config) => {
      build('medmix', config);
      paint();
    },
    field: (key) => kinds.medmix.form.flatMap(({ fields }) => fields).find((field) => field.key === key),
    own,
    save: (note) => presets.save(note),
  });
  const numbers = new Numbers($('.numbers.panel'), $('.measure'), () => {
    matching.close();
    if (!studio.study) throw new Error('The numbers need a study: choose or import one.');
    return scene();
  });

  studio.on('study', () => {
    own.leave();
    matching.close(true);
    paint();
  });
  await presets.load();
  // Opens with the preset for the kind of image, else with that of the default training, and follows the
  // kind of image until a setting is changed by hand.
  let offered = '';
  fitting.held.subscribe(() => {
    const name = fitting.value?.medmix || 'varied';
    if (form && (name === offered || presets.current()?.name !== offered)) return;
    offered = name;
    build('medmix', presets.named(name).config);
    if (studio.started) paint();
  });
  studio.on('started', paint);
}

// The reader's own images, dropped or chosen: shown instead of the study's, and not stored.
/** @param {HTMLElement} root @param {() => unknown} changed called when the images change */
function ownImages(root, changed) {
  const $ = finder(root);
  const state = { drop: '', files: /** @type {string[]} */ ([]) }; // the server's token of the uploaded images, and their file names
  /** @param {File[]} files */
  const take = async (files) => {
    if (!files.length) return;
    const { drop } = await api('/api/study/drop', {});
    for (const body of files)
      await api(`/api/study/drop/${drop}?path=${encodeURIComponent(body.name)}`, undefined, { method: 'PUT', body });
    Object.assign(state, { drop, files: files.map((file) => file.name) });
    $('.drop-off').hidden = false;
    await changed();
  };
  const leave = () => {
    state.drop = '';
    $('.drop-off').hidden = true;
  };
  dropZone($('.stage'), (event) => orToast(take([...(event.dataTransfer?.files || [])])));
  const choose = () => $('.own-files').click();
  $('.own').onclick = choose;
  $('.own-files').onchange = (/** @type {any} */ event) => {
    orToast(take([...event.target.files]));
    event.target.value = '';
  };
  $('.drop-off').onclick = () => {
    leave();
    changed();
  };
  return { state, leave, choose };
}
