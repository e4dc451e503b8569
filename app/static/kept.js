// What this browser keeps between visits, as JSON. One that stores nothing is no failure: what is not kept is not there.

/** @template T @param {string} key @param {T} otherwise what is given where nothing readable is kept @returns {T} */
export function kept(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key) || 'null') ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** @param {string} key @param {unknown} value */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // too large for this browser, or it stores nothing
  }
}
