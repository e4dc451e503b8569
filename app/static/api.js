// Every call to the server. `api` and `fetched` throw an Error whose message is a sentence for the reader; `get`, `post`
// and `postBytes`, which the reading room uses, return {ok: false, error} instead.

export class Refused extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}
export class Unreachable extends Error {}

/** @param {Response} response */
async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  const sentence = [body?.error, body?.detail].find((s) => typeof s === 'string' && s);
  return new Refused(
    sentence || `The studio answered ${response.status}. Reload the page and try again.`,
    response.status,
  );
}

/** @type {RegExp[]} */
let closed = []; // what whoever reads blind is refused: it is not asked for
let why = '';
/** @type {Promise<unknown>} */
let first = Promise.resolve(); // until it is known what is closed

/** What is refused until a blind reading has ended. @param {string[]} paths @param {string} sentence */
export function close(paths, sentence) {
  closed = paths.map((path) => new RegExp(`^${path}$`));
  why = sentence;
}

/** Nothing but the status is asked for before `known`. @param {Promise<unknown>} known */
export const askFirst = (known) => (first = known);

/** One request. A body that is no file is sent as JSON.
 * @param {string} path @param {unknown} [body] @param {RequestInit} [options] @returns {Promise<Response>} */
export async function fetched(path, body, options = {}) {
  const init = { ...options };
  if (body instanceof Blob || body instanceof Uint8Array) {
    init.method ||= 'POST';
    init.body = /** @type {BodyInit} */ (body);
  } else if (body !== undefined) {
    init.method ||= 'POST';
    init.headers = { 'Content-Type': 'application/json' };
    init.body = JSON.stringify(body);
  }
  if (!init.method && !path.startsWith('/api/status')) {
    await first;
    const [place] = path.split('?');
    if (closed.some((one) => one.test(place))) throw new Refused(why, 403);
  }
  let response;
  try {
    response = await fetch(`.${path}`, init); // the page may lie below a path of a proxy
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Unreachable('The studio does not answer. Nothing was lost; try again when it runs.');
  }
  if (response.status === 401) location.href = 'sign-in';
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The answer of a route as JSON. @type {import('./answers').Api} */
export const api = /** @type {any} */ (
  async (/** @type {string} */ path, /** @type {unknown} */ body, /** @type {RequestInit} */ options) =>
    (await fetched(path, body, options)).json().catch(() => ({}))
);

/** Bytes and the headers that describe them, or null if the server has none. @param {string} path */
export async function bytes(path) {
  try {
    const response = await fetched(path);
    return { buffer: await response.arrayBuffer(), headers: response.headers };
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

/** @param {Promise<any>} answer */
async function settled(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Refused) return { ok: false, error: error.message, status: error.status };
    if (error instanceof Unreachable) return { ok: false, error: error.message };
    throw error;
  }
}

/** @param {Record<string, unknown>} params those that are empty are left out */
function query(params) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : '';
}

/** Bytes as text. @param {Uint8Array} raw */
export const base64 = (raw) => btoa(Array.from(raw, (b) => String.fromCharCode(b)).join(''));

/** Takes apart what begins with its head: length (uint32), JSON, the rest. @param {ArrayBufferLike} buffer @param {number} [from] */
export function headed(buffer, from = 0) {
  const at = from + 4 + new DataView(buffer, from).getUint32(0, true);
  return { head: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, from + 4, at - from - 4))), at };
}

/** Marks one call, so that the server stores a repeated one once. */
export function token() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (b) => b.toString(16).padStart(2, '0')).join('');
}

/** @type {import('./answers').Get} */
export const get = /** @type {any} */ (
  (/** @type {string} */ path, /** @type {Record<string, unknown>} */ params = {}) => settled(api(path + query(params)))
);

/** Sends a change, and again (twice at most) if the studio cannot be reached. @type {import('./answers').Post} */
export const post = /** @type {any} */ (
  async (/** @type {string} */ path, /** @type {Record<string, unknown>} */ body = {}) => {
    const marked = { token: token(), ...body };
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await api(path, marked);
      } catch (error) {
        if (error instanceof Refused || attempt >= 2) return settled(Promise.reject(error));
        await new Promise((done) => setTimeout(done, 300 * (attempt + 1)));
      }
    }
  }
);

/** @type {import('./answers').PostBytes} */
export const postBytes = /** @type {any} */ (
  (/** @type {string} */ path, /** @type {Record<string, unknown>} */ params, /** @type {Uint8Array} */ content) =>
    settled(
      api(path + query({ token: token(), ...params }), content, {
        headers: { 'Content-Type': 'application/octet-stream' },
      }),
    )
);

/** Removes something. @type {import('./answers').Discard} */
export const discard = /** @type {any} */ (
  (/** @type {string} */ path) => settled(api(path, undefined, { method: 'DELETE' }))
);

/** Numbers questions that may overtake each other: call it at each question, and what it returns tells, when the answer
 * is there, whether that question is still the last. An older answer that is shown would undo a choice made since. */
export function questions() {
  let last = 0;
  return () => {
    last += 1;
    const mine = last;
    return () => mine === last;
  };
}

// Everything that changes a review goes through one promise chain, so that ten keys hit fast become ten calls in their
// order, each on the case that is then on screen.
/** @type {Promise<unknown>} */
let chain = Promise.resolve();

/** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
export function enqueue(work) {
  const next = chain.then(work);
  chain = next.catch((error) => console.error(error));
  return next;
}

/** Resolves when what has been asked for so far is done. */
export const idle = () => chain;
