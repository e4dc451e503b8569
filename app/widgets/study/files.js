// Files that were dropped or chosen, each with its path below what was taken.

/** @typedef {{path: string, file: File}} Upload */

/** All files below an entry. @param {any} entry a FileSystemEntry @param {string} [path] @returns {Promise<Upload[]>} */
async function filesBelow(entry, path = '') {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return [{ path: path + entry.name, file }];
  }
  const found = [];
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)); // a hundred at a time
    if (!some.length) return found;
    for (const inner of some) found.push(...(await filesBelow(inner, `${path}${entry.name}/`)));
  }
}

/** @param {DragEvent} event */
export async function droppedFiles({ dataTransfer }) {
  const entries = [...(dataTransfer?.items || [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) found.push(...(await filesBelow(entry)));
  return found;
}

/** Takes what was chosen out of an input. @param {HTMLInputElement} input @returns {Upload[]} */
export function chosenFiles(input) {
  const found = [...(input.files || [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  input.value = '';
  return found;
}
