// Calls to the server. Everything that changes something goes through one promise chain, so that
// ten keys hit fast become ten calls in their order, each on the case that is then on screen.

let chain = Promise.resolve();

export function enqueue(work) {
  const next = chain.then(work);
  chain = next.catch((error) => console.error(error));
  return next;
}

export function idle() {
  return chain;
}

function token() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

async function answer(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    body = null;
  }
  if (response.ok && body) return body;
  const said = body && (body.error || body.detail);
  const text =
    typeof said === 'string' ? said : `The server answered ${response.status}. Reload the page and try again.`;
  return { ok: false, error: text, status: response.status };
}

const lost = { ok: false, error: 'The studio does not answer. Nothing was lost; try again when it runs.' };

export async function get(path, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') query.set(key, value);
  }
  const text = query.toString();
  try {
    return await answer(await fetch(text ? `${path}?${text}` : path, { credentials: 'same-origin' }));
  } catch {
    return lost;
  }
}

// The token lets the server tell a repeated call from a second decision: it is stored once.
export async function post(path, body = {}) {
  const text = JSON.stringify({ token: token(), ...body });
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await answer(
        await fetch(path, {
          method: 'POST',
          credentials: 'same-origin',
          headers: { 'Content-Type': 'application/json' },
          body: text,
        }),
      );
    } catch {
      if (attempt >= 2) return lost;
      await new Promise((done) => setTimeout(done, 300 * (attempt + 1)));
    }
  }
}

export async function postBytes(path, params, bytes) {
  try {
    return await answer(
      await fetch(`${path}?${new URLSearchParams({ token: token(), ...params })}`, {
        method: 'POST',
        credentials: 'same-origin',
        headers: { 'Content-Type': 'application/octet-stream' },
        body: bytes,
      }),
    );
  } catch {
    return lost;
  }
}

export async function bytes(path) {
  const response = await fetch(path, { credentials: 'same-origin' });
  if (!response.ok) return null;
  return { buffer: await response.arrayBuffer(), headers: response.headers };
}
