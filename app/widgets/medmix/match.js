// "Match lesions": the reader chooses real lesions, and a search finds settings whose lesions look like them.
import { effect, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { api } from '../../static/api.js';
import { Chart } from '../../static/chart.js';
import { orToast, toast } from '../../static/dialogs.js';
import { download, finder } from '../../static/dom.js';
import { tidy } from '../../static/fields.js';
import { fixed, plural } from '../../static/format.js';
import { underWay } from '../../static/plan.js';
import { button, html, show } from '../../static/view.js';
import { Missed } from './measured.js';
import { outline, pictureOf } from './outline.js';
import { same } from './presets.js';

/** @typedef {Answers.Search} Search */
/** @typedef {Answers.MatchState} State */
/** @typedef {Answers.Field} Field */
/** @typedef {import('./outline.js').Outlined} Outlined */

const LOOK = 600; // milliseconds between checks of a search
const FEW = 5; // lesions chosen by one click
const IN_ROW = 12; // maximum pictures of lesions in a row above the grid
/** @type {Record<string, string>} */
const ENDED = { failed: 'The search failed: ', cancelled: 'Stopped: the best settings so far were kept. ' };
const TASK = 'Choose real lesions. A search then changes MedMix’s settings until pasted lesions look like them.';
const NO_MASKS = 'This study has no reference or accepted masks. Outline a lesion on an image of your own.';
const SCALE = 'At 1, pasted lesions differ from real ones as much as normal tissue does; at 0, not at all.';
const UNKNOWN = 'The distance to other lesions is unknown: it takes lesions of at least four patients.';

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
    this.numbers = $('.numbers.panel');
    this.isOpen = signal(false);
    /** Addresses of the chosen lesions' pictures, by case number or by number of the outlined lesion. */
    this.chosen = signal(/** @type {Map<string, string>} */ (new Map()));
    this.outlined = signal(/** @type {Outlined[]} */ ([]));
    this.offered = signal(/** @type {Answers.OfferedLesions | null} */ (null));
    this.search = signal(/** @type {Search | null} */ (null)); // null while lesions are being chosen
    this.pasted = signal(/** @type {string[]} */ ([])); // pictures of the lesions in the grid
    this.chart = new Chart({ title: 'Distance', low: 0, unit: 'second' });
    this.put = ''; // the settings that the search put on screen last, as JSON
    this.waiting = 0;
    $('.match-open').onclick = () => orToast(this.open());
    show($('.match.panel'), Panel, { match: this });
    show($('.match-rows'), Rows, { match: this });
    effect(() => {
      $('.match.panel').hidden = !this.isOpen.value;
      $('.match-rows').hidden = !this.isOpen.value || !this.search.value;
    });
  }

  /** Opens the panel, with the study's latest search if it still runs. */
  async open() {
    const study = this.on.study();
    if (!study) throw new Error('Choose or import a study first: lesions are pasted into its normal images.');
    this.numbers.hidden = true;
    this.isOpen.value = true;
    this.offered.value = await api(`/api/medmix/lesions?study=${encodeURIComponent(study)}`);
    const { latest } = this.offered.value;
    if (latest && !this.search.peek()) {
      const search = await api(`/api/medmix/match/${latest}`);
      if (underWay(search.job?.status)) this.search.value = search;
    }
    await this.follow();
  }

  /** Closes the panel; a search continues in the background. @param {boolean} [whole] whether to forget the choice too */
  close(whole = false) {
    clearTimeout(this.waiting);
    this.isOpen.value = false;
    if (!whole) return;
    this.search.value = this.offered.value = null;
    this.chosen.value = new Map();
    this.outlined.value = [];
  }

  /** Chooses a lesion, or takes the choice back. @param {string} key @param {string} picture */
  toggle(key, picture) {
    const chosen = new Map(this.chosen.peek());
    const most = this.offered.peek()?.most || 0;
    if (!chosen.delete(key)) {
      if (chosen.size >= most) return toast(`At most ${most} lesions can be matched.`, 'note');
      chosen.set(key, picture);
    }
    this.chosen.value = chosen;
  }

  /** Opens the outline dialog; asks for own images first if there are none. */
  outline() {
    const { state, choose } = this.on.own;
    if (!state.drop) {
      choose();
      return;
    }
    outline(state.drop, state.files, (lesion) => {
      this.toggle(`outlined ${this.outlined.peek().length}`, lesion.picture);
      this.outlined.value = [...this.outlined.peek(), lesion];
    });
  }

  /** Opens the outline dialog if images were dropped or chosen while lesions are being chosen. */
  dropped() {
    if (this.isOpen.peek() && !this.search.peek()) this.outline();
  }

  /** @param {number} seconds */
  async begin(seconds) {
    const keys = [...this.chosen.peek().keys()];
    const body = {
      study: this.on.study(),
      seconds,
      cases: keys.map(Number).filter((id) => id),
      outlined: this.outlined
        .peek()
        .filter((_, i) => keys.includes(`outlined ${i}`))
        .map(({ drop, file, outline: line }) => ({ drop, file, outline: line })),
    };
    const { match } = await api('/api/medmix/match', body);
    this.on.own.leave(); // the results are shown on the study's images
    this.search.value = await api(`/api/medmix/match/${match}`);
    await this.follow();
  }

  /** Follows the search until it ends, and puts its best settings on screen. */
  async follow() {
    clearTimeout(this.waiting);
    const search = this.search.peek();
    if (!search || !this.isOpen.peek()) return;
    const now = await api(`/api/medmix/match/${search.id}`);
    if (this.search.peek()?.id !== now.id || !this.isOpen.peek()) return;
    this.search.value = now;
    const config = now.state && JSON.stringify(now.state.config);
    if (now.state && config !== this.put) {
      this.put = String(config);
      this.on.put(now.state.config);
    }
    if (underWay(now.job?.status)) this.waiting = setTimeout(() => orToast(this.follow()), LOOK);
  }

  /** Shows the lesions of the repainted grid below the real ones. @param {import('./grid.js').Grid} grid */
  painted({ mosaic, outlines, side }) {
    if (!this.search.peek() || !this.isOpen.peek()) return;
    const firsts = outlines.flatMap((row, n) =>
      row.flatMap((lines, m) => lines.slice(0, 1).map((line) => ({ line, n, m }))),
    );
    this.pasted.value = firsts
      .slice(0, IN_ROW)
      .map(({ line, n, m }) => pictureOf(mosaic, line, side, side, m * side, n * side));
  }
}

/** The chosen lesions above those that the settings paint. @param {{match: Match}} props */
function Rows({ match }) {
  const row = (/** @type {string} */ name, /** @type {string[]} */ pictures) =>
    html`<div role="group" aria-label="${name} lesions">
      <span class="dim">${name}</span>${pictures.slice(0, IN_ROW).map((src) => html`<img src=${src} alt="" />`)}
    </div>`;
  const real = [...match.chosen.value.values()];
  return [real.length > 0 && row('Real', real), row('Pasted', match.pasted.value)];
}

/** @param {{match: Match}} props */
function Panel({ match }) {
  if (!match.isOpen.value || !match.offered.value) return null;
  const search = match.search.value;
  const Contents = !search ? Choice : underWay(search.job?.status) ? Progress : Result;
  return html`<div class="top">
      <h2>Match lesions</h2>${button('✕', () => match.close(), { 'aria-label': 'Close' })}
    </div>
    <${Contents} match=${match} search=${search} offered=${match.offered.value} />`;
}

/** @param {{match: Match, offered: Answers.OfferedLesions}} props */
function Choice({ match, offered }) {
  const [seconds, setSeconds] = useState('60');
  const chosen = match.chosen.value;
  const tile = (/** @type {string} */ key, /** @type {string} */ src, /** @type {string} */ name) =>
    button(html`<img src=${src} alt="" loading="lazy" width="64" height="64" />`, () => match.toggle(key, src), {
      class: 'lesion',
      title: name,
      'aria-label': name,
      'aria-pressed': chosen.has(key),
    });
  const study = encodeURIComponent(match.on.study() || '');
  const pictureOfCase = (/** @type {number} */ id) => `./api/medmix/lesions/${id}/patch.png?study=${study}`;
  const some = () => {
    const step = Math.max(1, offered.lesions.length / FEW);
    const few = Array.from({ length: FEW }, (_, i) => offered.lesions[Math.floor(i * step)].case);
    match.chosen.value = new Map(few.map((id) => [String(id), pictureOfCase(id)]));
  };
  const tiles = [
    ...match.outlined.value.map(({ picture, file }, i) => tile(`outlined ${i}`, picture, `${file}, outlined here`)),
    ...offered.lesions.map(({ case: id, name, kind }) =>
      tile(String(id), pictureOfCase(id), `${name}${kind === 'readers' ? ', annotated by readers' : ''}`),
    ),
  ];
  return html`<p class="dim">${TASK}</p>
    ${tiles.length > 0 && html`<div class="lesions" role="group" aria-label="Lesions">${tiles}</div>`}
    ${!tiles.length && html`<p>${NO_MASKS}</p>`}
    <div class="row">
      <b class="num">${chosen.size} of at most ${offered.most} chosen</b>
      ${offered.lesions.length > FEW && button(`Choose ${FEW} lesions`, some, { class: 'link' })}
      ${button('Outline on own image…', () => match.outline(), { class: 'link outline-own' })}
    </div>
    <div class="row">
      <label>Search for<input type="number" min="5" max="3600" aria-label="Seconds to search" value=${seconds}
        onInput=${(/** @type {any} */ event) => setSeconds(event.target.value)} />s</label>
      ${button('Match', () => orToast(match.begin(Number(seconds))), { class: 'main', disabled: !chosen.size })}
    </div>`;
}

/** The best distance so far, and its course. @param {{match: Match, state: State}} props */
function Distance({ match, state }) {
  const { before, after, seconds, history, preset } = state;
  useEffect(
    () => match.chart.put([{ name: '', points: [[0, before], ...history, [seconds, after]], thick: true }]),
    [state],
  );
  return html`<p class="big num">${fixed(after, 2)}<small>distance; preset ${preset}: ${fixed(before, 2)}</small></p>
    <div ref=${(/** @type {Element | null} */ place) => place?.append(match.chart.element)} />`;
}

/** @param {{match: Match, search: Search}} props */
function Progress({ match, search: { id, state, limit, job, count } }) {
  const spent = state?.seconds || 0;
  const words = state
    ? `${plural(state.tries, 'setting')} tried, ${Math.max(0, Math.round(limit - spent))} s left`
    : job?.status === 'queued'
      ? 'Waiting in the queue…'
      : `Reading ${plural(count, 'lesion')}…`;
  const stop = async () => {
    match.search.value = await api(`/api/medmix/match/${id}/stop`, {});
  };
  return html`<p role="status">${words}</p>
    <progress max=${limit} value=${Math.min(spent, limit)} aria-label="Search" />
    ${state && html`<${Distance} match=${match} state=${state} />`}
    <p class="dim">${SCALE}</p>
    ${button(state ? 'Stop and keep the best' : 'Stop', () => orToast(stop()))}`;
}

/** @param {{match: Match, search: Search}} props */
function Result({ match, search: { id, state, job, count } }) {
  const { on } = match;
  const choose = () => {
    match.search.value = null;
  };
  const again = button('Match other lesions', choose, { class: 'link' });
  const ended = ENDED[job?.status || ''];
  const error = ended ? ended + (job?.error || '') : '';
  if (!state) return html`<p class="bad">${error || 'The search found no settings.'}</p>${again}`;
  const { left_out: others, left_out_before: before, settings = [] } = state;
  const nearer = others == null || before == null || others < before;
  const preset = before == null ? '' : ` (preset ${state.preset}: ${fixed(before, 2)})`;
  const known = others == null ? UNKNOWN : `On held-out lesions (cross-validated): ${fixed(others, 2)}${preset}.`;
  const save = () => {
    const changed = !same(on.config(), { ...on.config(), ...state.config });
    const note = state.note || `Matched to ${plural(count, 'lesion')}`;
    return on.save(`${note}${changed ? '; changed by hand since' : ''}`);
  };
  const saveFile = async () => {
    const found = await api(`/api/medmix/match/${id}/export`, { name: 'matched', config: on.config() });
    download(new Blob([JSON.stringify(found.preset, null, 2)], { type: 'application/json' }), 'matched.json');
  };
  const setting = (/** @type {NonNullable<State['settings']>[number]} */ one) =>
    html`<${Setting} match=${match} setting=${one} after=${state.after} />`;
  return html`${error && html`<p class="warn">${error}</p>`}
    <${Distance} match=${match} state=${state} />
    <p class=${nearer ? '' : 'warn'}>
      ${known}${nearer ? '' : ' The preset is closer to other lesions: choose more lesions to match.'}
    </p>
    ${state.words && html`<p>Settings that mattered: ${state.words}.</p>`}
    ${settings.length > 0 && html`<div class="changed">${settings.map(setting)}</div>`}
    <div class="row">
      ${button('Save as preset…', () => orToast(save()), { class: 'main' })}
      ${button('JSON ↓', () => orToast(saveFile()), { title: 'Save settings and their source as JSON' })}
      ${again}
    </div>
    <h3>What would be missed</h3>
    <div class="missed"><${Missed} scene=${() => ({ study: on.study(), config: on.config() })} /></div>`;
}

/** A checkbox for a setting that the search changed; a click undoes the change.
 * @param {{match: Match, setting: NonNullable<State['settings']>[number], after: number}} props */
function Setting({ match: { on }, setting: { name, before, after: now, without }, after }) {
  const [isKept, setKept] = useState(same({ now: on.config()[name] }, { now }));
  const field = on.field(name);
  const turn = () => {
    on.put({ ...on.config(), [name]: isKept ? before : now });
    setKept(!isKept);
  };
  const gains = without - after;
  return html`<label title="Without this change the distance is ${fixed(without, 2)}">
    <input type="checkbox" checked=${isKept} aria-label="Keep ${field?.label || name}" onChange=${turn} />
    <span>${field?.label || name}</span>
    <span class="num dim">${written(field, before)} → ${written(field, now)}</span>
    <span class="num">${gains > 0 ? '−' : '+'}${fixed(Math.abs(gains), 2)}</span>
  </label>`;
}
