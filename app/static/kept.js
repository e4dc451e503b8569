// Values stored in this browser between visits, as JSON. A browser that stores nothing is not an error.

/** @template T @param {string} key @param {T} otherwise the value if nothing readable is stored @returns {T} */
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
    // too large for this browser, or storage is disabled
  }
}
