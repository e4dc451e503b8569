import { join, loadSets, widen } from './placed.js';

// A map as the browser holds it: typed arrays, and the identity by which a point is known on every map.
export async function loadMap(studio, key) {
  const base = `/api/clusters/maps/${key}`;
  const [about, answer, { sets, waiting }] = await Promise.all([studio.api(base), fetch(`${base}/coords`), loadSets(studio, base)]);
  if (!answer.ok) throw new Error('The points of this map could not be read. Draw it again.');
  const coords = new Float32Array(await answer.arrayBuffer());
  const n = about.points.case_id.length;
  const epochs = about.epochs.length;
  if (coords.length !== 2 * n * epochs) throw new Error('This map is damaged. Draw it again.');
  const { case_id: cases, lesions, place } = about.points;
  const ids = Float64Array.from(cases, (c, i) => (c * 64 + lesions[i]) * 4097 + (place ? place[i] + 1 : 0));
  const whole = join({ base, coords, n, epochs, ids, cases, lesions }, sets);
  return {
    key, base, about, epochs, waiting, ...whole, // own: how many points are the map's own; the placed come after them
    centres: about.epochs.map((e) => e.centres),
    fits: about.fits,
    thumb: (i, side = 96) => `${whole.url(i)}/thumb.png?side=${side}`,
    title: titleOf({ ...about, count: n }),
    _index: null,
    // Where a point of another map is on this one, or -1.
    find(id) {
      if (!this._index) { this._index = new Map(); this.ids.forEach((v, i) => this._index.set(v, i)); }
      return this._index.get(id) ?? -1;
    },
  };
}

export const METHODS = { tsne: 't-SNE', umap: 'UMAP', pca: 'PCA' };
export const FEATURES = { centred: 'centred', projected: 'projected', backbone: 'backbone', patch: 'patches' };

export function titleOf({ config, run_name: run, epochs, count }) {
  const e = epochs.map((x) => (typeof x === 'object' ? x.epoch : x));
  const when = e.length > 1 ? `epochs ${e[0]}\u2013${e[e.length - 1]}` : `epoch ${e[0]}`;
  const seed = config.seed ? ` \u00b7 seed ${config.seed}` : '';
  return `${METHODS[config.method]} of ${FEATURES[config.feature]} \u00b7 ${run} \u00b7 ${when} \u00b7 ${(count || 0).toLocaleString('en')} points${seed}`;
}

export async function loadColumns(studio, map, fit) {
  const query = fit ? `?fit=${encodeURIComponent(fit)}` : '';
  const { columns } = await studio.api(`${map.base}/columns${query}`);
  return new Map(columns.map((c) => [c.name, widen(c, map)]));
}
