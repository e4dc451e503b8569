// Dropped or chosen files, each with its path below the dropped folder.

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
  // Both are requested before anything is awaited: afterwards the browser has released the dropped files.
  const items = [...(dataTransfer?.items || [])].map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  const found = [];
  for (const [entry, file] of /** @type {[any, File | null][]} */ (items)) {
    if (entry) found.push(...(await filesBelow(entry)));
    else if (file) found.push({ path: file.name, file });
  }
  return found;
}

/** Accepts files dropped where no part of the page handles them. @param {(files: Upload[]) => unknown} take */
export function dropAnywhere(take) {
  const body = document.body;
  const files = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
  document.addEventListener('dragover', (event) => {
    if (!files(event)) return;
    event.preventDefault();
    body.classList.add('dropping');
  });
  document.addEventListener('dragleave', (event) => event.relatedTarget || body.classList.remove('dropping'));
  document.addEventListener('drop', () => body.classList.remove('dropping'), true);
  document.addEventListener('drop', async (event) => {
    if (!files(event) || event.defaultPrevented) return;
    event.preventDefault();
    take(await droppedFiles(event));
  });
}

/** Takes the chosen files out of an input. @param {HTMLInputElement} input @returns {Upload[]} */
export function chosenFiles(input) {
  const found = [...(input.files || [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  input.value = '';
  return found;
}
