// A map in the browser: typed arrays, and the identity that a point has on every map.
import { api, fetched } from '../../../static/api.js';
import { join, loadSets, widen } from './projected.js';

/** @typedef {Awaited<ReturnType<typeof loadMap>>} MapData */

/** @param {string} key */
export async function loadMap(key) {
  const base = /** @type {const} */ (`/api/clusters/maps/${key}`);
  /** @type {[Answers.MapAbout, Response, Awaited<ReturnType<typeof loadSets>>]} */
  const [about, answer, { sets, waiting }] = await Promise.all([api(base), fetched(`${base}/coords`), loadSets(base)]);
  const coords = new Float32Array(await answer.arrayBuffer());
  const n = about.points.case_id.length;
  const epochs = about.epochs.length;
  if (coords.length !== 2 * n * epochs) throw new Error('This map is damaged. Draw it again.');
  const { case_id: cases, lesions } = about.points;
  const ids = Float64Array.from(cases, (c, i) => c * 64 + lesions[i]);
  const whole = join({ base, coords, n, epochs, ids, cases, lesions }, sets);
  /** @type {Map<number, number> | null} */
  let index = null;
  return {
    key,
    base,
    about,
    epochs,
    waiting,
    ...whole, // own: the number of the map's own points; placed ones follow them
    centres: about.epochs.map((e) => e.centres),
    fits: about.fits,
    thumb: (/** @type {number} */ i, side = 96) => `${whole.url(i)}/thumb.png?side=${side}`,
    title: titleOf({ ...about, count: n }),
    /** Returns the index on this map of another map's point, or -1. @param {number} id */
    find(id) {
      index ??= new Map(Array.from(whole.ids, (v, i) => [v, i]));
      return index.get(id) ?? -1;
    },
  };
}

const METHODS = { tsne: 't-SNE', umap: 'UMAP', pca: 'PCA' };

/** Returns a map's name in menus: method, features, run, epochs, seed.
 * @param {{config: Answers.MapConfig, run_name: string, epochs: (number | {epoch: number})[],
 *   count: number | null}} map */
export function titleOf({ config, run_name: run, epochs, count }) {
  const e = epochs.map((x) => (typeof x === 'object' ? x.epoch : x));
  const when = e.length > 1 ? `epochs ${e[0]}\u2013${e[e.length - 1]}` : `epoch ${e[0]}`;
  const seed = config.seed ? ` \u00b7 seed ${config.seed}` : '';
  const points = `${(count || 0).toLocaleString('en')} points${seed}`;
  return [`${METHODS[config.method]} of ${config.feature} features`, run, when, points].join(' \u00b7 ');
}

/** The columns that can colour the points, by name. @param {{base: `/api/clusters/maps/${string}`} & Pick<MapData, 'added' | 'sets'>} map
 * @param {string | null} fit the run whose scores are among them */
export async function loadColumns(map, fit) {
  /** @type {'' | `?${string}`} */
  const query = fit ? `?fit=${encodeURIComponent(fit)}` : '';
  const { columns } = await api(`${map.base}/columns${query}`);
  return new Map(columns.map((c) => [c.name, widen(c, map)]));
}
