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
  const usual = `The studio answered ${response.status}. Reload the page and try again.`;
  return new Refused(sentence || usual, response.status);
}

/** @type {RegExp[]} */
let closed = []; // paths refused to blind readers, which are therefore not requested
let why = '';
/** @type {Promise<unknown>} */
let first = Promise.resolve(); // resolves when the closed paths are known

/** Sets the paths that are refused until a blind reading has ended. @param {string[]} paths @param {string} sentence */
export function close(paths, sentence) {
  closed = paths.map((path) => new RegExp(`^${path}$`));
  why = sentence;
}

/** Requests other than the status wait for `known`. @param {Promise<unknown>} known */
export const askFirst = (known) => (first = known);

/** Sends one request. A body that is not a file is sent as JSON.
 * @param {string} path @param {unknown} [body] @param {RequestInit} [options] @returns {Promise<Response>} */
export async function fetched(path, body, options = {}) {
  const raw = body instanceof Blob || body instanceof Uint8Array;
  const json = () => ({ body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
  /** @type {any} */
  const init = body === undefined ? options : { method: 'POST', ...(raw ? { body } : json()), ...options };
  if (!init.method && !path.startsWith('/api/status')) {
    await first;
    const [place] = path.split('?');
    if (closed.some((one) => one.test(place))) throw new Refused(why, 403);
  }
  let response;
  try {
    response = await fetch(`.${path}`, init); // a proxy may serve the page below a path
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Unreachable('The studio does not answer. Nothing was lost; try again when it runs.');
  }
  if (response.status === 401) location.href = 'sign-in';
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The answer of a route as JSON. @type {Answers.Api} */
export const api = /** @type {any} */ (
  async (/** @type {string} */ path, /** @type {unknown} */ body, /** @type {RequestInit} */ options) =>
    (await fetched(path, body, options)).json().catch(() => ({}))
);

/** Returns bytes and the headers that describe them, or null if the server has none. @param {string} path */
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

/** @param {Record<string, unknown>} params empty ones are omitted */
function query(params) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : '';
}

/** Encodes bytes as text. @param {Uint8Array} raw */
export const base64 = (raw) => btoa(Array.from(raw, (b) => String.fromCharCode(b)).join(''));

/** Splits a buffer with a head: length (uint32), JSON, the rest. @param {ArrayBufferLike} buffer */
export function headed(buffer) {
  const at = 4 + new DataView(buffer).getUint32(0, true);
  return { head: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, at - 4))), at };
}

/** Returns a token that identifies one call, so that the server stores a repeated one only once. */
export function token() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (b) => b.toString(16).padStart(2, '0')).join('');
}

/** @type {Answers.Get} */
export const get = /** @type {any} */ (
  (/** @type {string} */ path, /** @type {Record<string, unknown>} */ params = {}) => settled(api(path + query(params)))
);

/** Sends a change; retries at most twice if the studio cannot be reached. @type {Answers.Post} */
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

/** @type {Answers.PostBytes} */
export const postBytes = /** @type {any} */ (
  (/** @type {string} */ path, /** @type {Record<string, unknown>} */ params, /** @type {Uint8Array} */ content) =>
    settled(
      api(path + query({ token: token(), ...params }), content, {
        headers: { 'Content-Type': 'application/octet-stream' },
      }),
    )
);

/** Removes something. @type {Answers.Discard} */
export const discard = /** @type {any} */ (
  (/** @type {string} */ path) => settled(api(path, undefined, { method: 'DELETE' }))
);

/** Numbers requests that may overtake each other: call it for each request; when the answer arrives, the returned
 * function says whether that request is still the last. Showing an older answer would undo a later choice. */
export function questions() {
  let last = 0;
  return () => {
    last += 1;
    const mine = last;
    return () => mine === last;
  };
}

// All changes of a review go through one promise chain, so that ten fast keys become ten calls in order, each on the
// case that is on screen at that time.
/** @type {Promise<unknown>} */
let chain = Promise.resolve();

/** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
export function enqueue(work) {
  const next = chain.then(work);
  chain = next.catch((error) => console.error(error));
  return next;
}

/** Resolves when all calls made so far are done. */
export const idle = () => chain;
