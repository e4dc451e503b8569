// The clicked point: its image with heat map and outline, its score, its nearest neighbours in feature space.
import { api } from '../../../static/api.js';
import { action, check, el } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';

/** @typedef {import('./pane.js').Pane} Pane */
/** @typedef {Omit<Answers.PointDetail, 'ok' | 'case' | 'reading'> & Partial<Pick<Answers.PointDetail, 'reading'>> & {far?: boolean,
 *   case: {name: string, split?: string, tags: string[]} | null}} Shown a point of the map, or a new image on it */

export class Detail {
  /** @param {HTMLElement} root @param {import('./cluster_view.js').ClusterView} clusters */
  constructor(root, clusters) {
    this.root = root;
    this.clusters = clusters;
    /** The layers over the image. @type {Record<string, boolean>} */
    this.layers = { heat: true, outline: true };
    /** @type {{key: string, point: number} | null} */
    this.shown = null;
    this.token = {}; // identifies the newest request; answers to older ones are discarded
  }

  /** @param {import('./model.js').MapData | null} map the one that is open */
  blank(map) {
    this.shown = null;
    const text = map
      ? 'Click a point to see its image, its score and its nearest neighbours in feature space. Draw a lasso to see many.'
      : '';
    this.root.hidden = !map;
    this.root.replaceChildren(el('p', { class: 'dim hint' }, text));
  }

  /** @param {Pane} pane @param {number} i */
  async show(pane, i) {
    const token = (this.token = {});
    const stale = () => token !== this.token;
    this.shown = { key: pane.map.key, point: i };
    const base = pane.map.url(i);
    if (i >= pane.map.own) {
      // A new image: its name, its nearest neighbours on the map, and whether it resembles anything on it.
      const { name, title, case_id, far, neighbours } = await api(`${base}?epoch=${pane.epochIndex}`);
      if (stale()) return;
      const placed = { group: `Placed: ${title}`, case: { name, tags: [] }, far, lesions: 0, outline: [], reviews: [] };
      this.render({ point: i, case_id, ...placed }, base);
      return this.near(pane, neighbours);
    }
    const query = pane.fit ? `?fit=${encodeURIComponent(pane.fit)}` : '';
    const asked = api(`${base}/neighbours?epoch=${pane.epochIndex}&k=10`);
    const said = await api(`${base}${query}`);
    if (stale()) return;
    this.render(said, base);
    const { neighbours } = await asked;
    if (!stale()) this.near(pane, neighbours);
  }

  /** @param {Shown} said @param {string} base the point's address */
  render(said, base) {
    const { case: shown, reading, lesions, outline, reviews, group, far } = said;
    const name = shown?.name || 'case removed';
    const frame = dom`<div class="frame">
      <img class="image" src="${base}/image.png?side=512" alt=${name} data-case=${said.case_id} data-point=${said.point} />
    </div>`;
    const layers = [];
    if (reading?.has_map) {
      const src = `${base}/heat.png?fit=${encodeURIComponent(reading.run)}`;
      frame.append(el('img', { class: 'heat', alt: '', src }));
      layers.push(this.layer(frame, 'heat', 'Heat map'));
    }
    if (outline.length) {
      const rings = outline.map((ring) => el('polygon', { points: ring.map((p) => p.join(',')).join(' ') }));
      frame.append(el('svg', { class: 'outline', viewBox: '0 0 1 1', preserveAspectRatio: 'none' }, rings));
      layers.push(this.layer(frame, 'outline', lesions ? 'Pasted lesions' : 'Lesion mask'));
    }
    const review = (/** @type {typeof reviews[number]} */ { reader, decision, comment }) =>
      dom`<span class="dim">${reader}: ${decision}${comment && `, \u201c${comment}\u201d`}</span>`;
    const warning = 'Far from every image on this map: its position is unreliable.';
    const parts = dom`<div class="head">
        <h2 title=${name}>${name}${lesions > 0 && `, A${String.fromCharCode(0x2080 + lesions)}`}</h2>${this.link(said)}
      </div>
      ${frame}
      <div class="layers">${layers}</div>
      <div class="facts">
        <b>${group}</b>
        ${far && el('p', { class: 'warning' }, warning)}
        ${reading && score(reading)}
        ${reviews.slice(0, 3).map(review)}
        ${shown && shown.tags.length > 0 && el('span', { class: 'dim' }, shown.tags.join(', '))}
      </div>
      <h3>Nearest in feature space</h3>
      <div class="near" />`;
    this.root.replaceChildren(...parts);
  }

  /** Shows the nearest neighbours, and rings around them on the map.
   * @param {Pane} pane @param {Answers.Neighbour[]} neighbours */
  near(pane, neighbours) {
    pane.plot.neighbours = neighbours.map(({ point }) => point);
    pane.plot.redraw(false);
    const thumbs = neighbours.map(({ point, distance }) => {
      const look = { class: 'thumb', 'data-point': point, title: `Distance ${distance.toFixed(4)}` };
      const picture = dom`<img src=${pane.map.thumb(point)} alt="" />
        <i style="background:${this.clusters.colourOf(pane, point)}" /><span class="num">${distance.toFixed(3)}</span>`;
      return action(picture, () => this.clusters.click(pane, point, false), look);
    });
    this.root.querySelector('.near')?.replaceChildren(...thumbs);
  }

  /** @param {HTMLElement} frame @param {'heat' | 'outline'} name @param {string} title */
  layer(frame, name, title) {
    frame.classList.toggle(`no-${name}`, !this.layers[name]);
    const { box, label } = check(` ${title}`, { checked: this.layers[name] });
    box.onchange = () => {
      this.layers[name] = box.checked;
      frame.classList.toggle(`no-${name}`, !box.checked);
    };
    return label;
  }

  /** @param {Shown} said */
  link(said) {
    if (said.lesions || !said.case || said.case.split !== 'test') return null;
    const look = { class: 'small', title: 'Open this case in Review' };
    return action('Review', () => this.clusters.studio.openCase(said.case_id), look);
  }
}

/** @param {NonNullable<Answers.PointDetail['reading']>} reading */
function score({ percentile_roi: percentile, score_roi: score, flagged_roi: flagged }) {
  const percent = percentile == null ? '\u2013' : percentile.toFixed(percentile > 99 && percentile < 100 ? 1 : 0);
  const exact = `(${score == null ? '\u2013' : score.toPrecision(4)})${flagged ? ', flagged' : ''}`;
  return dom`<span class="score">
    <b class="num ${flagged ? 'bad' : ''}">${percent} %</b>
    <span class="dim"> of held-out normals score lower ${exact}</span>
  </span>`;
}
