// The clicked point (its image with heat map and outline, its score, its nearest neighbours in feature space), or the
// selected points as pictures, with actions on them.
import { computed, effect, signal } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import { api } from '../../../static/api.js';
import { orToast, submitted, toast } from '../../../static/dialogs.js';
import { Answered } from '../../../static/store.js';
import { button, html, show } from '../../../static/view.js';
import { css } from './palette.js';
import { current, flash, look, panes, pointsOf, scoresOf, selection } from './state.js';

/** @typedef {import('./pane.js').Pane} Pane */
/** @typedef {Answers.Neighbour} Neighbour */

const PAGE = 40; // pictures of a selection that are added at once
const HINT =
  'Click a point to see its image, its score and its nearest neighbours in feature space. Draw a lasso to see many.';
const OPEN = 'Open this case in Review';
const FAR = 'Far from every image on this map: its position is unreliable.';

/** The clicked point, or null. */
const clicked = computed(() => {
  const pane = current.value;
  const i = pane.map ? pane.map.find(selection.value.focus) : -1;
  return i < 0 ? null : { pane, i, address: pane.map.url(i), isPlaced: i >= pane.map.own };
});

/** Shows the panel, and rings around the neighbours of the point on the map. @param {HTMLElement} place */
export function showDetail(place) {
  const point = new Answered(
    () => {
      if (!clicked.value) return null;
      const { pane, address, isPlaced } = clicked.value;
      if (isPlaced) return `${address}?epoch=${pane.settled.value}`;
      return pane.fit ? `${address}?fit=${encodeURIComponent(pane.fit)}` : address;
    },
    (path) => api(path),
  );
  const near = new Answered(
    () => {
      if (!clicked.value || clicked.value.isPlaced) return null;
      return `${clicked.value.address}/neighbours?epoch=${clicked.value.pane.settled.value}&k=10`;
    },
    (path) => api(path),
  );
  /** @returns {Neighbour[]} */
  const neighbours = () => (near.value || point.value)?.neighbours || [];
  effect(() => {
    for (const pane of panes) {
      pane.plot.neighbours = pane === current.value ? neighbours().map((n) => n.point) : [];
      pane.plot.redraw(false);
    }
  });

  const Panel = () => {
    const pane = current.value;
    const last = useRef(/** @type {any} */ (null)); // what was shown, until the next answer arrives
    if (!pane.map) return null;
    const at = clicked.value;
    const points = pointsOf(pane);
    const refused = point.error || near.error;
    if (at && refused) return html`<p class="dim hint">${refused}</p>`;
    if (!at && points.length > 1) last.current = html`<${Selection} key=${selection.value} ...${{ pane, points }} />`;
    else if (!at) last.current = html`<p class="dim hint">${HINT}</p>`;
    else if (point.value) {
      const answers = { said: point.value, neighbours: neighbours() };
      last.current = html`<${Point} key=${at.address} ...${at} ...${answers} />`;
    }
    return last.current;
  };
  show(place, () => html`<${Panel} key=${current.value.map} />`);
}

const layers = { heat: signal(true), outline: signal(true) }; // the layers over the image

/** @param {{name: 'heat' | 'outline', title: string}} props */
function Layer({ name, title }) {
  const layer = layers[name];
  const turn = () => {
    layer.value = !layer.value;
  };
  return html`<label class="check"><input type="checkbox" checked=${layer.value} onChange=${turn} /> ${title}</label>`;
}

/** @param {{pane: Pane, i: number, address: string, isPlaced: boolean, said: any,
 * neighbours: Neighbour[]}} props said: Answers.PointDetail, or of a placed image its name, set and distance */
function Point({ pane, i, address, isPlaced, said, neighbours }) {
  const { reading, lesions = 0, outline = [], reviews = [] } = said;
  const about = isPlaced ? { name: said.name, tags: [] } : said.case;
  const name = about?.name || 'case removed';
  const heat = reading?.has_map && `.${address}/heat.png?fit=${encodeURIComponent(reading.run)}`;
  const review = (/** @type {Answers.PointDetail['reviews'][number]} */ { reader, decision, comment }) =>
    html`<span class="dim">${reader}: ${decision}${comment && `, \u201c${comment}\u201d`}</span>`;
  const isCase = !lesions && about?.split === 'test';
  return html`<div class="head">
      <h2 title=${name}>${name}${lesions > 0 && `, A${String.fromCharCode(0x2080 + lesions)}`}</h2>
      ${isCase && button('Review', () => window.Studio.openCase(said.case_id), { class: 'small', title: OPEN })}
    </div>
    <div class="frame">
      <img class="image" src=".${address}/image.png?side=512" alt=${name} data-case=${said.case_id} data-point=${i} />
      ${heat && layers.heat.value && html`<img class="heat" alt="" src=${heat} />`}
      ${
        outline.length > 0 &&
        layers.outline.value &&
        html`<svg class="outline" viewBox="0 0 1 1" preserveAspectRatio="none">
          ${outline.map((/** @type {number[][]} */ ring) => html`<polygon points=${ring.join(' ')} />`)}
        </svg>`
      }
    </div>
    <div class="layers">
      ${heat && html`<${Layer} name="heat" title="Heat map" />`}
      ${outline.length > 0 && html`<${Layer} name="outline" title=${lesions ? 'Pasted lesions' : 'Lesion mask'} />`}
    </div>
    <div class="facts">
      <b>${isPlaced ? `Placed: ${said.title}` : said.group}</b>
      ${said.far && html`<p class="warning">${FAR}</p>`}
      ${reading && html`<${Score} ...${reading} />`}
      ${reviews.slice(0, 3).map(review)}
      ${about?.tags.length > 0 && html`<span class="dim">${about.tags.join(', ')}</span>`}
    </div>
    <h3>Nearest in feature space</h3>
    <div class="near">${neighbours.map(
      ({ point, distance }) =>
        html`<${Thumb} pane=${pane} point=${point} title="Distance ${distance.toFixed(4)}"
          onClick=${() => look(pane, point)}>
          <span class="num">${distance.toFixed(3)}</span>
        <//>`,
    )}</div>`;
}

/** A point's picture as a button.
 * @param {{pane: Pane, point: number, children?: any} & Record<string, unknown>} props */
function Thumb({ pane, point, children, ...more }) {
  return html`<button type="button" class="thumb" data-point=${point} ...${more}>
    <img src=".${pane.map.thumb(point)}" alt="" loading="lazy" />
    <i style="background:${css(pane.colouring.value.colours[point])}" />${children}
  </button>`;
}

/** @param {NonNullable<Answers.PointDetail['reading']>} reading */
function Score({ percentile_roi: percentile, score_roi: score, flagged_roi: flagged }) {
  const percent = percentile == null ? '\u2013' : percentile.toFixed(percentile > 99 && percentile < 100 ? 1 : 0);
  const exact = `(${score == null ? '\u2013' : score.toPrecision(4)})${flagged ? ', flagged' : ''}`;
  return html`<span class="score">
    <b class="num ${flagged ? 'bad' : ''}">${percent} %</b>
    <span class="dim"> of held-out normals score lower ${exact}</span>
  </span>`;
}

/** The selection: counts by class, actions, and the images, a page at a time.
 * @param {{pane: Pane, points: number[]}} props */
function Selection({ pane, points }) {
  const [most, setMost] = useState(PAGE);
  const { codes, names = [] } = pane.column;
  const counts = new Map();
  if (codes) for (const i of points) counts.set(codes[i], (counts.get(codes[i]) || 0) + 1);
  const part = (/** @type {[number, number]} */ [code, n]) => html`<span class="part">
    <i style="background:${css(pane.colouring.value.table?.[code] ?? 0)}" />
    ${names[code] === '\u2013' ? 'none' : names[code]} <b class="num">${n.toLocaleString('en')}</b>
  </span>`;
  const tile = (/** @type {number} */ i) => html`<${Thumb} pane=${pane} point=${i} data-case=${pane.map.cases[i]}
    onClick=${() => look(pane, i)}
    onPointerEnter=${() => flash(pane, i)} onPointerLeave=${() => flash(pane, -1)} />`;
  return html`<div class="head"><h2>${points.length.toLocaleString('en')} selected</h2></div>
    <div class="parts">${[...counts].sort((a, b) => b[1] - a[1]).map(part)}</div>
    <${Actions} pane=${pane} points=${points} />
    <div class="tiles">${points.slice(0, most).map(tile)}</div>
    ${
      points.length > most &&
      html`<button class="small more" onClick=${() => setMost(most + PAGE)}>
        Show more (${(points.length - most).toLocaleString('en')} left)
      </button>`
    }`;
}

/** Tags and the worklist are for cases: MedMix versions among the points are skipped, with a message.
 * @param {{pane: Pane, points: number[]}} props */
function Actions({ pane, points }) {
  const own = points.filter((i) => i < pane.map.own);
  /** @param {'tag' | 'worklist'} what @param {object} body @param {(done: any) => string} say */
  const act = async (what, body, say) => {
    if (!own.length) throw new Error('Images placed on a map are not cases of its study: import them first.');
    const done = await api(`${pane.map.base}/${what}`, { points: own, ...body });
    const left = done.left_out + points.length - own.length;
    toast(say(done) + (left ? ` ${left} points are not cases and were skipped.` : ''), 'good');
    await scoresOf(pane.fit); // the columns with the new tags
  };
  const tag = submitted((given) =>
    act('tag', { tag: String(given.get('tag')).trim() }, (d) => `${d.cases} cases tagged \u201c${d.tag}\u201d.`),
  );
  const list = () => orToast(act('worklist', {}, (d) => `${d.cases} cases are on your worklist.`));
  const title = 'Assign these test cases to you: Review lists them';
  return html`<form class="actions" onSubmit=${tag}>
    <input type="text" class="tag" name="tag" placeholder="tag" maxlength="60" pattern=".*\\S.*" required aria-label="Tag" />
    <button>Tag</button>${button('Add to worklist', list, { class: 'worklist', title })}
  </form>`;
}
