// A map in the browser: typed arrays, and the identity that a point has on every map. New images placed on it are
// appended to its points as a separate class, so that every tool handles them.
import { api, fetched } from '../../../static/api.js';

/** @typedef {Awaited<ReturnType<typeof loadMap>>} MapData */
/** @typedef {Answers.Projection & {coords: Float32Array}} ProjectedSet */

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
    /** Returns the index on this map of another map's point, or -1. @param {number | undefined} id */
    find: (id) => whole.ids.indexOf(Number(id)),
    /** Returns the indices of those of another map's points that are on this map. @param {Set<number>} ids */
    findAll: (ids) => Array.from(whole.ids.keys()).filter((i) => ids.has(whole.ids[i])),
  };
}

export const METHODS = { tsne: 't-SNE', umap: 'UMAP', pca: 'PCA' };

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

/** The columns that can colour the points, by name, and the run whose scores are among them: `wanted` if possible.
 * @param {Pick<MapData, 'base' | 'fits' | 'added' | 'sets'>} map @param {string | null} wanted */
export async function loadColumns(map, wanted) {
  const fit = map.fits.some((f) => f.id === wanted) ? wanted : map.fits[0]?.id || null;
  /** @type {'' | `?${string}`} */
  const query = fit ? `?fit=${encodeURIComponent(fit)}` : '';
  const { columns } = await api(`${map.base}/columns${query}`);
  return { fit, columns: new Map(columns.map((c) => [c.name, widen(c, map)])) };
}

const PREFIX = 'Placed: ';
/** Returns the class name of a set's points. @param {{title: string}} set */
export const nameOf = (set) => PREFIX + set.title;
/** @param {string} name of a class */
export const isProjected = (name) => name.startsWith(PREFIX);

/** The identity of a file outside a study: a negative number from its name, the same on every map. @param {string} text */
function idOf(text) {
  let [a, b] = [2166136261, 5381];
  for (const c of text) {
    a = Math.imul(a ^ (c.codePointAt(0) || 0), 16777619);
    b = (Math.imul(b, 33) + (c.codePointAt(0) || 0)) | 0;
  }
  return -((a >>> 0) * 1048576 + ((b >>> 0) & 1048575) + 1);
}

/** Fetches the sets of new images on the map `base`, with their positions, and the projections in progress.
 * @param {`/api/clusters/maps/${string}`} base */
async function loadSets(base) {
  const { sets } = await api(`${base}/placed`);
  const whole = async (/** @type {Answers.Projection} */ set) => {
    const answer = await fetched(`${base}/placed/${set.key}/coords`);
    return { ...set, coords: new Float32Array(await answer.arrayBuffer()) };
  };
  const ready = sets.filter((s) => s.ready).map(whole);
  return { sets: await Promise.all(ready), waiting: sets.filter((s) => !s.ready) };
}

/** Appends the sets to the map's own `n` points: coords by epoch, ids, cases, lesions, addresses.
 * @param {{base: string, coords: Float32Array, n: number, epochs: number, ids: ArrayLike<number> & Iterable<number>,
 * cases: number[], lesions: number[]}} map coords: (epochs, n, 2) @param {ProjectedSet[]} sets */
export function join({ base, coords, n, epochs, ids, cases, lesions }, sets) {
  const parts = [coords, ...sets.map((set) => set.coords)];
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (let e = 0; e < epochs; e += 1)
    for (const part of parts) {
      const size = part.length / epochs;
      all.set(part.subarray(size * e, size * (e + 1)), at);
      at += size;
    }
  const added = sets.flatMap((set) =>
    set.names.map((name, j) => ({ set, j, name, url: `${base}/placed/${set.key}/${j}` })),
  );
  return {
    n: n + added.length,
    own: n,
    coords: all,
    sets,
    added,
    ids: Float64Array.from([
      ...ids,
      ...added.map(({ set, j, name }) => (set.cases[j] >= 0 ? set.cases[j] * 64 : idOf(`${set.title}/${name}`))),
    ]),
    cases: [...cases, ...added.map(({ set, j }) => set.cases[j])],
    lesions: [...lesions, ...added.map(() => 0)],
    url: (/** @type {number} */ i) => (i < n ? `${base}/points/${i}` : added[i - n].url),
  };
}

/** Extends columns to the new points: a separate class for categories, unknown for numbers.
 * @param {Answers.Column} column @param {Pick<ReturnType<typeof join>, 'added' | 'sets'>}
 * map */
export function widen(column, map) {
  if (!map.added.length) return column;
  if (column.values) return { ...column, values: [...column.values, ...map.added.map(() => null)] };
  const { names: own = [], codes = [] } = column;
  const names = [...own, ...map.sets.map(nameOf)];
  return { ...column, names, codes: [...codes, ...map.added.map(({ set }) => own.length + map.sets.indexOf(set))] };
}
