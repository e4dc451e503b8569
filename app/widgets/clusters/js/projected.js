// New images on a map: they are appended to its points as a separate class, so that every tool handles them.
import { api, fetched } from '../../../static/api.js';

/** @typedef {Answers.Projection & {coords: Float32Array}} ProjectedSet */

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
export async function loadSets(base) {
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
  const more = sets.reduce((sum, s) => sum + s.names.length, 0);
  const total = n + more;
  const all = new Float32Array(2 * total * epochs);
  for (let e = 0; e < epochs; e += 1) {
    all.set(coords.subarray(2 * n * e, 2 * n * (e + 1)), 2 * total * e);
    let at = total * e + n;
    for (const { coords: c, names } of sets) {
      const m = names.length;
      all.set(c.subarray(2 * m * e, 2 * m * (e + 1)), 2 * at);
      at += m;
    }
  }
  const added = sets.flatMap((set) =>
    set.names.map((name, j) => ({ set, j, name, url: `${base}/placed/${set.key}/${j}` })),
  );
  return {
    n: total,
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
