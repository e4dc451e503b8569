// The clicked point (its image with heat map and outline, its score, its nearest neighbours in feature space), or the
// selected points as pictures, with actions on them.
import { effect, signal } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { Answered } from '../../../static/store.js';
import { button, html, show } from '../../../static/view.js';
import { css } from './palette.js';

/** @typedef {import('../clusters.js').ClusterView} ClusterView */
/** @typedef {import('./pane.js').Pane} Pane */
/** @typedef {Answers.Neighbour} Neighbour */

const PAGE = 40; // pictures of a selection that are added at once
const HINT =
  'Click a point to see its image, its score and its nearest neighbours in feature space. Draw a lasso to see many.';
const OPEN = 'Open this case in Review';
const FAR = 'Far from every image on this map: its position is unreliable.';

/** Shows the panel, and rings around the neighbours of the point on the map.
 * @param {HTMLElement} place @param {ClusterView} clusters */
export function showDetail(place, clusters) {
  /** The pane and the clicked point, or null. */
  const clicked = () => {
    clusters.changed.value;
    const { pane } = clusters;
    const i = pane.map ? pane.plot.focus : -1;
    return i < 0 ? null : { pane, i, address: pane.map.url(i), isPlaced: i >= pane.map.own };
  };
  const point = new Answered(
    () => {
      const at = clicked();
      if (!at) return null;
      if (at.isPlaced) return `${at.address}?epoch=${at.pane.settled}`;
      return at.pane.fit ? `${at.address}?fit=${encodeURIComponent(at.pane.fit)}` : at.address;
    },
    (path) => api(path),
  );
  const near = new Answered(
    () => {
      const at = clicked();
      return at && !at.isPlaced ? `${at.address}/neighbours?epoch=${at.pane.settled}&k=10` : null;
    },
    (path) => api(path),
  );
  /** @returns {Neighbour[]} */
  const neighbours = () => (near.value || point.value)?.neighbours || [];
  effect(() => {
    clusters.changed.value;
    const { plot } = clusters.pane;
    plot.neighbours = neighbours().map((n) => n.point);
    plot.redraw(false);
  });

  const Panel = () => {
    clusters.changed.value;
    const { pane } = clusters;
    const last = useRef(/** @type {any} */ (null)); // what was shown, until the next answer arrives
    if (!pane.map) return null;
    const at = clicked();
    const points = clusters.pointsOf(pane);
    const refused = point.error || near.error;
    if (at && refused) return html`<p class="dim hint">${refused}</p>`;
    if (!at && points.length > 1)
      last.current = html`<${Selection} key=${pane.plot.selected} ...${{ clusters, pane, points }} />`;
    else if (!at) last.current = html`<p class="dim hint">${HINT}</p>`;
    else if (point.value) {
      const answers = { said: point.value, neighbours: neighbours() };
      last.current = html`<${Point} key=${at.address} clusters=${clusters} ...${at} ...${answers} />`;
    }
    return last.current;
  };
  show(place, Panel);
}

const shown = { heat: signal(true), outline: signal(true) }; // the layers over the image

/** @param {{name: 'heat' | 'outline', title: string}} props */
function Layer({ name, title }) {
  const layer = shown[name];
  const turn = () => {
    layer.value = !layer.value;
  };
  return html`<label class="check"><input type="checkbox" checked=${layer.value} onChange=${turn} /> ${title}</label>`;
}

/** @param {{clusters: ClusterView, pane: Pane, i: number, address: string, isPlaced: boolean, said: any,
 * neighbours: Neighbour[]}} props said: Answers.PointDetail, or of a placed image its name, set and distance */
function Point({ clusters, pane, i, address, isPlaced, said, neighbours }) {
  const { reading, lesions = 0, outline = [], reviews = [] } = said;
  const about = isPlaced ? { name: said.name, tags: [] } : said.case;
  const name = about?.name || 'case removed';
  const heat = reading?.has_map && `.${address}/heat.png?fit=${encodeURIComponent(reading.run)}`;
  const isCase = !lesions && about?.split === 'test';
  return html`<div class="head">
      <h2 title=${name}>${name}${lesions > 0 && `, A${String.fromCharCode(0x2080 + lesions)}`}</h2>
      ${isCase && button('Review', () => clusters.studio.openCase(said.case_id), { class: 'small', title: OPEN })}
    </div>
    <div class="frame">
      <img class="image" src=".${address}/image.png?side=512" alt=${name} data-case=${said.case_id} data-point=${i} />
      ${heat && shown.heat.value && html`<img class="heat" alt="" src=${heat} />`}
      ${
        outline.length > 0 &&
        shown.outline.value &&
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
      ${reviews
        .slice(0, 3)
        .map(
          (/** @type {Answers.PointDetail['reviews'][number]} */ { reader, decision, comment }) =>
            html`<span class="dim">${reader}: ${decision}${comment && `, \u201c${comment}\u201d`}</span>`,
        )}
      ${about?.tags.length > 0 && html`<span class="dim">${about.tags.join(', ')}</span>`}
    </div>
    <h3>Nearest in feature space</h3>
    <div class="near">${neighbours.map(
      ({ point, distance }) =>
        html`<${Thumb} pane=${pane} point=${point} title="Distance ${distance.toFixed(4)}"
          onClick=${() => clusters.focus(pane, point)}>
          <span class="num">${distance.toFixed(3)}</span>
        <//>`,
    )}</div>`;
}

/** A point's picture as a button.
 * @param {{pane: Pane, point: number, children?: any} & Record<string, unknown>} props */
const Thumb = ({
  pane,
  point,
  children,
  ...more
}) => html`<button type="button" class="thumb" data-point=${point} ...${more}>
  <img src=".${pane.map.thumb(point)}" alt="" loading="lazy" />
  <i style="background:${css(pane.plot.colours[point])}" />${children}
</button>`;

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
 * @param {{clusters: ClusterView, pane: Pane, points: number[]}} props */
function Selection({ clusters, pane, points }) {
  const [most, setMost] = useState(PAGE);
  const { codes, names = [] } = pane.column;
  const counts = new Map();
  if (codes) for (const i of points) counts.set(codes[i], (counts.get(codes[i]) || 0) + 1);
  const part = (/** @type {[number, number]} */ [code, n]) => html`<span class="part">
    <i style="background:${css(pane.plot.colouring?.table?.[code] ?? 0)}" />
    ${names[code] === '\u2013' ? 'none' : names[code]} <b class="num">${n.toLocaleString('en')}</b>
  </span>`;
  const tile = (/** @type {number} */ i) => html`<${Thumb} pane=${pane} point=${i} data-case=${pane.map.cases[i]}
    onClick=${() => clusters.focus(pane, i)}
    onPointerEnter=${() => clusters.flash(pane, i)} onPointerLeave=${() => clusters.flash(pane, -1)} />`;
  return html`<div class="head"><h2>${points.length.toLocaleString('en')} selected</h2></div>
    <div class="parts">${[...counts].sort((a, b) => b[1] - a[1]).map(part)}</div>
    <${Actions} clusters=${clusters} pane=${pane} points=${points} />
    <div class="tiles">${points.slice(0, most).map(tile)}</div>
    ${
      points.length > most &&
      html`<button class="small more" onClick=${() => setMost(most + PAGE)}>
        Show more (${(points.length - most).toLocaleString('en')} left)
      </button>`
    }`;
}

/** Tags and the worklist are for cases: MedMix versions among the points are skipped, with a message.
 * @param {{clusters: ClusterView, pane: Pane, points: number[]}} props */
function Actions({ clusters, pane, points }) {
  const name = useRef(/** @type {HTMLInputElement | null} */ (null));
  const own = points.filter((i) => i < pane.map.own);
  /** @param {'tag' | 'worklist'} what @param {object} body @param {(done: any) => string} say */
  const act = async (what, body, say) => {
    if (!own.length) throw new Error('Images placed on a map are not cases of its study: import them first.');
    const done = await api(`${pane.map.base}/${what}`, { points: own, ...body });
    const left = done.left_out + points.length - own.length;
    toast(say(done) + (left ? ` ${left} points are not cases and were skipped.` : ''), 'good');
    await clusters.scoresOf(clusters.fit); // the columns with the new tags
  };
  const tag = () => {
    const text = name.current?.value.trim();
    if (text) orToast(act('tag', { tag: text }, (d) => `${d.cases} cases tagged \u201c${d.tag}\u201d.`));
  };
  const list = () => orToast(act('worklist', {}, (d) => `${d.cases} cases are on your worklist.`));
  const title = 'Assign these test cases to you: Review lists them';
  return html`<div class="actions">
    <input ref=${name} type="text" class="tag" placeholder="tag" maxlength="60" aria-label="Tag"
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && tag()} />
    ${button('Tag', tag)}${button('Add to worklist', list, { class: 'worklist', title })}
  </div>`;
}
