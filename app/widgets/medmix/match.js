// "Match lesions": the reader chooses real lesions, and a search finds settings whose lesions look like them.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { action, download, el, fill, finder } from '../../static/dom.js';
import { tidy } from '../../static/fields.js';
import { fixed, plural } from '../../static/format.js';
import { underWay } from '../../static/plan.js';
import { curve, offerMissed } from './missed.js';
import { outline, pictureOf } from './outline.js';
import { same } from './presets.js';

/** @typedef {import('../../static/answers').Search} Search */
/** @typedef {import('../../static/answers').MatchState} State */
/** @typedef {import('../../static/answers').Field} Field */
/** @typedef {import('./outline.js').Outlined} Outlined */

const LOOK = 600; // milliseconds between checks of a search
const FEW = 5; // lesions chosen by one click
const IN_ROW = 12; // maximum pictures of lesions in a row above the grid
const ENDED = { failed: 'The search failed: ', cancelled: 'Stopped: the best settings so far were kept. ' };

/** Formats a setting's value as its control does. @param {Field | undefined} field @param {any} value */
function written(field, value) {
  if (Array.isArray(value)) return value.map(tidy).join(field?.kind === 'range' ? ' – ' : ', ');
  if (typeof value === 'number') return tidy(value);
  const names = field?.kind === 'several' || field?.kind === 'choice' ? field.names : {};
  return String(value).split('+').map((one) => names[one] || one).join(', '); // biome-ignore format: one line
}

export class Match {
  /** @param {HTMLElement} root @param {{study: () => string | null, config: () => Values, put: (config: Values) => void,
   * field: (key: string) => Field | undefined, own: {state: {drop: string, files: string[]}, choose: () => void, leave: () => void},
   * save: (note: string) => Promise<unknown>}} on config, put: read or set the settings on screen; own: dropped images */
  constructor(root, on) {
    this.on = on;
    const $ = finder(root);
    this.panel = $('.match.panel');
    this.rows = $('.match-rows');
    this.numbers = $('.numbers.panel');
    /** @type {Map<string, HTMLElement>} pictures of the chosen lesions, by case number or by number of the outlined lesion */
    this.chosen = new Map();
    /** @type {Outlined[]} */
    this.outlined = [];
    /** @type {import('../../static/answers').OfferedLesions | null} */
    this.offered = null;
    /** @type {Search | null} */
    this.search = null;
    this.put = ''; // the settings that the search put on screen last, as JSON
    this.waiting = 0;
    $('.match-open').onclick = () => orToast(this.open());
  }

  get going() {
    return underWay(this.search?.job?.status);
  }

  /** Opens the panel, with the study's latest search if it still runs. */
  async open() {
    const study = this.on.study();
    if (!study) throw new Error('Choose or import a study first: lesions are pasted into its normal images.');
    this.numbers.hidden = true;
    this.panel.hidden = false;
    this.offered = await api(`/api/medmix/lesions?study=${encodeURIComponent(study)}`);
    const { latest } = this.offered;
    if (latest && !this.search) {
      const search = await api(`/api/medmix/match/${latest}`);
      if (underWay(search.job?.status)) this.search = search;
    }
    if (this.search) await this.follow();
    else this.choose();
  }

  /** Closes the panel; a search continues in the background. @param {boolean} [whole] whether to forget the choice too */
  close(whole = false) {
    clearTimeout(this.waiting);
    this.panel.hidden = this.rows.hidden = true;
    if (!whole) return;
    this.search = null;
    this.chosen.clear();
    this.outlined = [];
  }

  /** @param {...import('../../static/types').Child} content */
  #fill(...content) {
    const close = action('✕', () => this.close(), { 'aria-label': 'Close' });
    fill(this.panel, el('div', { class: 'top' }, el('h2', {}, 'Match lesions'), close), ...content);
  }

  // Choosing -----------------------------------------------------------------------------------
  choose() {
    const { offered, chosen, on } = this;
    if (!offered) return;
    this.search = null;
    this.rows.hidden = true;
    const count = el('b', { class: 'num' });
    const start = action('Match', () => orToast(this.begin(Number(time.value))), { class: 'main' });
    const time = el('input', { type: 'number', value: '60', min: '5', max: '3600', 'aria-label': 'Seconds to search' });
    const tell = () => {
      count.textContent = `${chosen.size} of at most ${offered.most} chosen`;
      start.disabled = !chosen.size;
      for (const tile of tiles) tile.setAttribute('aria-pressed', String(chosen.has(tile.dataset.key || '')));
    };
    const toggle = (/** @type {string} */ key, /** @type {HTMLElement} */ picture) => {
      if (chosen.has(key)) chosen.delete(key);
      else if (chosen.size < offered.most) chosen.set(key, picture);
      else toast(`At most ${offered.most} lesions can be matched.`, 'note');
      tell();
    };
    const tile = (/** @type {string} */ key, /** @type {HTMLElement} */ picture, /** @type {string} */ name) =>
      action(picture, () => toggle(key, picture), {
        class: 'lesion',
        'data-key': key,
        title: name,
        'aria-label': name,
      });
    const tiles = [
      ...this.outlined.map((lesion, i) => tile(`outlined ${i}`, lesion.picture, `${lesion.file}, outlined here`)),
      ...offered.lesions.map(({ case: id, name, kind }) => {
        const src = `/api/medmix/lesions/${id}/patch.png?study=${encodeURIComponent(on.study() || '')}`;
        const picture = el('img', { src, alt: '', loading: 'lazy', width: 64, height: 64 });
        return tile(String(id), picture, `${name}${kind === 'readers' ? ', annotated by readers' : ''}`);
      }),
    ];
    const some = () => {
      const step = Math.max(1, offered.lesions.length / FEW);
      const ids = Array.from({ length: FEW }, (_, i) => String(offered.lesions[Math.floor(i * step)]?.case));
      chosen.clear();
      for (const each of tiles)
        if (ids.includes(each.dataset.key || ''))
          chosen.set(each.dataset.key || '', /** @type {any} */ (each.firstChild));
      tell();
    };
    this.#fill(
      el(
        'p',
        { class: 'dim' },
        'Choose real lesions. A search then changes MedMix’s settings until pasted lesions look like them.',
      ),
      tiles.length
        ? el('div', { class: 'lesions', role: 'group', 'aria-label': 'Lesions' }, tiles)
        : el('p', {}, 'This study has no reference or accepted masks. Outline a lesion on an image of your own.'),
      el(
        'div',
        { class: 'row' },
        count,
        offered.lesions.length > FEW && action(`Choose ${FEW} lesions`, some, { class: 'link' }),
        action('Outline on own image…', () => this.#outline(), { class: 'link outline-own' }),
      ),
      el('div', { class: 'row' }, el('label', {}, 'Search for', time, 's'), start),
    );
    tell();
  }

  /** Opens the outline dialog; asks for own images first if there are none. */
  #outline() {
    const { state, choose } = this.on.own;
    if (!state.drop) {
      choose();
      return;
    }
    outline(state.drop, state.files, (lesion) => {
      this.chosen.set(`outlined ${this.outlined.length}`, lesion.picture);
      this.outlined.push(lesion);
      this.choose();
    });
  }

  /** Opens the outline dialog if images were dropped or chosen while lesions are being chosen. */
  dropped() {
    if (!this.panel.hidden && !this.search) this.#outline();
  }

  /** @param {number} seconds */
  async begin(seconds) {
    const keys = [...this.chosen.keys()];
    const body = {
      study: this.on.study(),
      seconds,
      cases: keys.map(Number).filter((id) => id),
      outlined: this.outlined
        .filter((_, i) => keys.includes(`outlined ${i}`))
        .map(({ drop, file, outline: line }) => ({ drop, file, outline: line })),
    };
    const { match } = await api('/api/medmix/match', body);
    this.on.own.leave(); // the results are shown on the study's images
    this.search = await api(`/api/medmix/match/${match}`);
    await this.follow();
  }

  // Searching ----------------------------------------------------------------------------------
  /** Shows the progress of the search until it ends. */
  async follow() {
    clearTimeout(this.waiting);
    const { search } = this;
    if (!search || this.panel.hidden) return;
    const now = await api(`/api/medmix/match/${search.id}`);
    if (this.search?.id !== now.id || this.panel.hidden) return;
    this.search = now;
    const config = now.state && JSON.stringify(now.state.config);
    if (now.state && config !== this.put) {
      this.put = String(config);
      this.on.put(now.state.config);
    }
    this.rows.hidden = false;
    if (this.going) {
      this.#going(now);
      this.waiting = setTimeout(() => this.follow().catch((error) => toast(error.message, 'bad')), LOOK);
    } else this.#ended(now);
  }

  /** @param {State} state @param {number} limit */
  #distance(state, limit) {
    const end = Math.max(state.seconds, this.going ? 0.02 * limit : 0);
    const steps = [[0, state.before], ...state.history, [end, state.after]];
    const points = steps.flatMap(([at, distance], i) => [...(i ? [[at, steps[i - 1][1]]] : []), [at, distance]]);
    return [
      el(
        'p',
        { class: 'big num' },
        fixed(state.after, 2),
        el('small', {}, `distance; preset ${state.preset}: ${fixed(state.before, 2)}`),
      ),
      curve([{ points: /** @type {[number, number][]} */ (points) }], 'Distance by seconds', `${Math.round(end)} s`),
    ];
  }

  /** @param {Search} search */
  #going({ id, state, limit, job, count }) {
    const stop = async () => {
      this.search = await api(`/api/medmix/match/${id}/stop`, {});
    };
    const spent = state?.seconds || 0;
    const words = state
      ? `${plural(state.tries, 'setting')} tried, ${Math.max(0, Math.round(limit - spent))} s left`
      : job?.status === 'queued'
        ? 'Waiting in the queue…'
        : `Reading ${plural(count, 'lesion')}…`;
    this.#fill(
      el('p', { role: 'status' }, words),
      el('progress', { max: limit, value: Math.min(spent, limit), 'aria-label': 'Search' }),
      state && this.#distance(state, limit),
      el(
        'p',
        { class: 'dim' },
        'At 1, pasted lesions differ from real ones as much as normal tissue does; at 0, not at all.',
      ),
      action(state ? 'Stop and keep the best' : 'Stop', () => orToast(stop())),
    );
  }

  /** @param {Search} search */
  #ended({ id, state, job, count, limit }) {
    const again = action('Match other lesions', () => this.choose(), { class: 'link' });
    const error =
      job && job.status in ENDED ? ENDED[/** @type {keyof typeof ENDED} */ (job.status)] + (job.error || '') : '';
    if (!state) {
      this.#fill(el('p', { class: 'bad' }, error || 'The search found no settings.'), again);
      return;
    }
    const { left_out: others, left_out_before: before, settings = [] } = state;
    const nearer = others == null || before == null || others < before;
    const known =
      others == null
        ? 'The distance to other lesions is unknown: it takes lesions of at least four patients.'
        : `On held-out lesions (cross-validated): ${fixed(others, 2)}${before == null ? '' : ` (preset ${state.preset}: ${fixed(before, 2)})`}.`;
    const more = nearer ? '' : ' The preset is closer to other lesions: choose more lesions to match.';
    const note = () => {
      const changed = !same(this.on.config(), { ...this.on.config(), ...state.config });
      return `${state.note || `Matched to ${plural(count, 'lesion')}`}${changed ? '; changed by hand since' : ''}`;
    };
    const missed = el('div', { class: 'missed' });
    this.#fill(
      error && el('p', { class: 'warn' }, error),
      this.#distance(state, limit),
      el('p', { class: nearer ? '' : 'warn' }, known, more),
      state.words && el('p', {}, `Settings that mattered: ${state.words}.`),
      settings.length > 0 &&
        el(
          'div',
          { class: 'changed' },
          settings.map((setting) => this.#setting(setting, state.after)),
        ),
      el(
        'div',
        { class: 'row' },
        action('Save as preset…', () => orToast(this.on.save(note())), { class: 'main' }),
        action('JSON ↓', () => orToast(this.#export(id)), { title: 'Save settings and their source as JSON' }),
        again,
      ),
      el('h3', {}, 'What would be missed'),
      missed,
    );
    offerMissed(missed, () => ({ study: this.on.study(), config: this.on.config() }));
  }

  /** Builds a checkbox for a setting that the search changed; a click undoes the change. @param {NonNullable<State['settings']>[number]} setting
   * @param {number} after */
  #setting({ name, before, after: now, without }, after) {
    const field = this.on.field(name);
    const back = el('input', { type: 'checkbox', checked: true, 'aria-label': `Keep ${field?.label || name}` });
    back.onchange = () => this.on.put({ ...this.on.config(), [name]: back.checked ? now : before });
    const gains = without - after;
    return el(
      'label',
      { title: `Without this change the distance is ${fixed(without, 2)}` },
      back,
      el('span', {}, field?.label || name),
      el('span', { class: 'num dim' }, `${written(field, before)} → ${written(field, now)}`),
      el('span', { class: 'num' }, gains > 0 ? `−${fixed(gains, 2)}` : `+${fixed(-gains, 2)}`),
    );
  }

  /** @param {string} id */
  async #export(id) {
    const { preset } = await api(`/api/medmix/match/${id}/export`, { name: 'matched', config: this.on.config() });
    download(new Blob([JSON.stringify(preset, null, 2)], { type: 'application/json' }), 'matched.json');
  }

  /** Shows the lesions of the repainted grid below the real ones. @param {import('./grid.js').Grid} grid */
  painted({ mosaic, outlines, side }) {
    if (!this.search || this.panel.hidden) return;
    const { chosen, rows } = this;
    const real = [...chosen.values()].slice(0, IN_ROW).map((picture) => {
      if (!(picture instanceof HTMLCanvasElement)) return el('img', { src: picture.getAttribute('src'), alt: '' });
      const copy = el('canvas', { width: picture.width, height: picture.height });
      copy.getContext('2d')?.drawImage(picture, 0, 0);
      return copy;
    });
    const pasted = outlines.flatMap((row, n) =>
      row.flatMap((lines, m) =>
        lines.slice(0, 1).map((line) => pictureOf(mosaic, line, side, side, m * side, n * side)),
      ),
    );
    const row = (/** @type {string} */ name, /** @type {HTMLElement[]} */ pictures) =>
      el('div', { 'aria-label': `${name} lesions`, role: 'group' }, el('span', { class: 'dim' }, name), pictures);
    fill(rows, real.length > 0 && row('Real', real), row('Pasted', pasted.slice(0, IN_ROW)));
  }
}
