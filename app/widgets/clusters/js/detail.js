// The clicked point: its image with heat map and outline, its score, its nearest neighbours in feature space.
import { api } from '../../../static/api.js';
import { action, check, el } from '../../../static/dom.js';

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
    this.shown = { key: pane.map.key, point: i };
    const query = pane.fit ? `?fit=${encodeURIComponent(pane.fit)}` : '';
    const base = pane.map.url(i);
    if (i >= pane.map.own) {
      await this.showProjected(pane, i, base, token);
      return;
    }
    const asked = api(`${base}/neighbours?epoch=${pane.epochIndex}&k=10`);
    const said = await api(`${base}${query}`);
    if (token !== this.token) return;
    this.render(said, base);
    const { neighbours } = await asked;
    if (token !== this.token) return;
    pane.plot.neighbours = neighbours.map((/** @type {Answers.Neighbour} */ n) => n.point);
    pane.plot.redraw(false);
    this.near(pane, neighbours);
  }

  // A new image: its name, its nearest neighbours on the map, and whether it resembles anything on it.
  /** @param {Pane} pane @param {number} i @param {string} base @param {object} token */
  async showProjected(pane, i, base, token) {
    const found = await api(`${base}?epoch=${pane.epochIndex}`);
    if (token !== this.token) return;
    const { name, title, case_id, far, neighbours } = found;
    this.render(
      {
        point: i,
        case_id,
        lesions: 0,
        group: `Placed: ${title}`,
        case: { name, tags: [] },
        outline: [],
        reviews: [],
        far,
      },
      base,
    );
    pane.plot.neighbours = neighbours.map((/** @type {Answers.Neighbour} */ n) => n.point);
    pane.plot.redraw(false);
    this.near(pane, neighbours);
  }

  /** @param {Shown} said @param {string} base the point's address */
  render(said, base) {
    const name = said.case?.name || 'case removed';
    const frame = el(
      'div',
      { class: 'frame' },
      el('img', {
        class: 'image',
        src: `${base}/image.png?side=512`,
        alt: name,
        'data-case': said.case_id,
        'data-point': said.point,
      }),
    );
    const layers = [];
    if (said.reading?.has_map) {
      frame.append(
        el('img', { class: 'heat', alt: '', src: `${base}/heat.png?fit=${encodeURIComponent(said.reading.run)}` }),
      );
      layers.push(this.layer(frame, 'heat', 'Heat map'));
    }
    if (said.outline.length) {
      const rings = said.outline.map((ring) => el('polygon', { points: ring.map((p) => p.join(',')).join(' ') }));
      frame.append(el('svg', { class: 'outline', viewBox: '0 0 1 1', preserveAspectRatio: 'none' }, rings));
      layers.push(this.layer(frame, 'outline', said.lesions ? 'Pasted lesions' : 'Lesion mask'));
    }
    const facts = [el('b', {}, said.group)];
    if (said.far)
      facts.push(el('p', { class: 'warning' }, 'Far from every image on this map: its position is unreliable.'));
    if (said.reading) facts.push(this.score(said.reading));
    for (const r of said.reviews.slice(0, 3))
      facts.push(
        el('span', { class: 'dim' }, `${r.reader}: ${r.decision}${r.comment ? `, \u201c${r.comment}\u201d` : ''}`),
      );
    if (said.case?.tags.length) facts.push(el('span', { class: 'dim' }, said.case.tags.join(', ')));
    this.root.replaceChildren(
      el(
        'div',
        { class: 'head' },
        el('h2', { title: name }, said.lesions ? `${name}, A${String.fromCharCode(0x2080 + said.lesions)}` : name),
        this.link(said),
      ),
      frame,
      el('div', { class: 'layers' }, layers),
      el('div', { class: 'facts' }, facts),
      el('h3', {}, 'Nearest in feature space'),
      el('div', { class: 'near' }),
    );
  }

  /** @param {Pane} pane @param {Answers.Neighbour[]} neighbours */
  near(pane, neighbours) {
    this.root
      .querySelector('.near')
      ?.replaceChildren(
        ...neighbours.map(({ point, distance }) =>
          action(
            [
              el('img', { src: pane.map.thumb(point), alt: '' }),
              el('i', { style: `background:${this.clusters.colourOf(pane, point)}` }),
              el('span', { class: 'num' }, distance.toFixed(3)),
            ],
            () => this.clusters.click(pane, point, false),
            { class: 'thumb', 'data-point': point, title: `Distance ${distance.toFixed(4)}` },
          ),
        ),
      );
  }

  /** @param {NonNullable<Answers.PointDetail['reading']>} reading */
  score({ percentile_roi: percentile, score_roi: score, flagged_roi: flagged }) {
    const percent = percentile == null ? '\u2013' : percentile.toFixed(percentile > 99 && percentile < 100 ? 1 : 0);
    return el(
      'span',
      { class: 'score' },
      el('b', { class: `num ${flagged ? 'bad' : ''}` }, `${percent} %`),
      el(
        'span',
        { class: 'dim' },
        ` of held-out normals score lower (${score == null ? '\u2013' : score.toPrecision(4)})${flagged ? ', flagged' : ''}`,
      ),
    );
  }

  /** @param {HTMLElement} frame @param {'heat' | 'outline'} name @param {string} title */
  layer(frame, name, title) {
    frame.classList.toggle(`no-${name}`, !this.layers[name]);
    const { box, label } = check(` ${title}`, {
      checked: this.layers[name],
      onchange: () => {
        this.layers[name] = box.checked;
        frame.classList.toggle(`no-${name}`, !box.checked);
      },
    });
    return label;
  }

  /** @param {Shown} said */
  link(said) {
    if (said.lesions || !said.case || said.case.split !== 'test') return null;
    return action('Review', () => this.clusters.studio.openCase(said.case_id), {
      class: 'small',
      title: 'Open this case in Review',
    });
  }
}
