// New images on a map: they join its points at the end, in a class of their own, so that every tool knows them.
const PREFIX = 'Placed: ';
export const nameOf = (set) => PREFIX + set.title;
export const isPlaced = (name) => name.startsWith(PREFIX);

// A file of no study is known by its name: a number below zero, the same on every map.
function idOf(text) {
  let [a, b] = [2166136261, 5381];
  for (const c of text) {
    a = Math.imul(a ^ c.codePointAt(0), 16777619);
    b = (Math.imul(b, 33) + c.codePointAt(0)) | 0;
  }
  return -((a >>> 0) * 1048576 + ((b >>> 0) & 1048575) + 1);
}

// What lies on the map `base` besides its own points: sets with their places; and whether more is on its way.
export async function loadSets(studio, base) {
  const { sets } = await studio.api(`${base}/placed`);
  const ready = sets.filter((s) => s.ready);
  await Promise.all(ready.map(async (set) => {
    const answer = await fetch(`${base}/placed/${set.key}/coords`);
    if (!answer.ok) throw new Error('The places of new images could not be read. Place them again.');
    set.coords = new Float32Array(await answer.arrayBuffer());
  }));
  return { sets: ready, waiting: sets.filter((s) => !s.ready) };
}

// Puts the sets behind the map's own `n` points: coords epoch by epoch, ids, cases, lesions, the address of each.
export function join({ base, coords, n, epochs, ids, cases, lesions }, sets) {
  const more = sets.reduce((sum, s) => sum + s.names.length, 0);
  const total = n + more;
  const all = new Float32Array(2 * total * epochs);
  for (let e = 0; e < epochs; e += 1) {
    all.set(coords.subarray(2 * n * e, 2 * n * (e + 1)), 2 * total * e);
    let at = total * e + n;
    for (const { coords: c, names: { length: m } } of sets) {
      all.set(c.subarray(2 * m * e, 2 * m * (e + 1)), 2 * at);
      at += m;
    }
  }
  const added = sets.flatMap((set) => set.names.map((name, j) => ({ set, j, name, url: `${base}/placed/${set.key}/${j}` })));
  return {
    n: total, own: n, coords: all, sets, added,
    ids: Float64Array.from([...ids, ...added.map(({ set, j, name }) => (set.cases[j] >= 0 ? set.cases[j] * 64 * 4097 : idOf(`${set.title}/${name}`)))]),
    cases: [...cases, ...added.map(({ set, j }) => set.cases[j])],
    lesions: [...lesions, ...added.map(() => 0)],
    url: (i) => (i < n ? `${base}/points/${i}` : added[i - n].url),
  };
}

// Columns cover the new points too: a class of their own where there are classes, unknown where there are numbers.
export function widen(column, map) {
  if (!map.added.length) return column;
  if (column.values) return { ...column, values: [...column.values, ...map.added.map(() => null)] };
  const names = [...column.names, ...map.sets.map(nameOf)];
  return { ...column, names, codes: [...column.codes, ...map.added.map(({ set }) => column.names.length + map.sets.indexOf(set))] };
}

// The form: a folder on this machine or a study; what has been placed, to be taken off again.
export class Placing {
  constructor(root, studio, room) {
    Object.assign(this, { root, studio, room, kept: [] });
    root.querySelector('.put').onclick = () => this.go();
    root.addEventListener('toggle', () => { if (root.open) this.studies().catch(() => {}); });
    root.addEventListener('keydown', (event) => { if (event.key === 'Escape') { root.open = false; root.querySelector('summary').focus(); } });
    root.querySelector('.place-folder').addEventListener('keydown', (event) => { if (event.key === 'Enter') this.go(); });
  }

  get pane() { return this.room.active.map ? this.room.active : this.room.panes[0]; }

  async studies() {
    const { el, api } = this.studio;
    const { studies } = await api('/api/status');
    const select = this.root.querySelector('.place-study');
    const kept = select.value;
    select.replaceChildren(el('option', { value: '' }, 'none'), ...studies.map((s) => el('option', { value: s }, s === this.room.study ? `${s}, the rest of it` : s)));
    select.value = studies.includes(kept) ? kept : '';
  }

  render() {
    const { map } = this.pane;
    this.root.hidden = !map || map.about.config.feature === 'patch';
    if (this.root.hidden) return;
    const { el } = this.studio;
    this.root.querySelector('.sets').replaceChildren(...map.sets.map((set) => el('div', { class: 'line' },
      el('span', { class: 'name', title: this.told(set) }, `${set.title}, ${set.names.length.toLocaleString('en')}`),
      el('button', { class: 'small', 'aria-label': `Take ${set.title} off the map`, onclick: () => this.off(set) }, '\u00d7'))));
    if (map.waiting.some((s) => ['queued', 'running'].includes(s.job_status))) this.watch(map.key);
    else if (!this.wanted) this.say(null);
  }
  told(set) {
    const far = set.far[set.far.length - 1].filter(Boolean).length;
    const lost = set.left_out.length ? ` ${set.left_out.length} files could not be read.` : '';
    return `${set.names.length} images; ${far} far from every image of the map.${lost}`;
  }

  async go() {
    const { map } = this.pane;
    const folder = this.root.querySelector('.place-folder').value.trim();
    const study = this.root.querySelector('.place-study').value;
    if (!map) return;
    if (!folder && !study) { this.studio.toast('Give the path of a folder, or choose a study.', 'bad'); return; }
    try {
      const { key, ready } = await this.studio.api(`${map.base}/placed`, folder ? { folder } : { study });
      this.wanted = key;
      if (ready) await this.arrived(map.key);
      else this.watch(map.key);
    } catch (error) {
      this.studio.toast(error.message, 'bad');
    }
  }

  say(row) {
    const working = this.root.querySelector('.on-way');
    working.hidden = !row;
    this.root.querySelector('.put').disabled = Boolean(row);
    if (!row) return;
    const bar = working.querySelector('progress');
    if (row.job_status === 'running') bar.value = row.progress;
    else bar.removeAttribute('value');
    working.querySelector('.said').textContent = row.job_status === 'running' ? row.message : 'Waits for the job that is running';
  }

  watch(key) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(key).catch(() => this.watch(key)), 700);
  }
  async look(key) {
    const { sets } = await this.studio.api(`/api/clusters/maps/${key}/placed`);
    const row = sets.find((s) => !s.ready && ['queued', 'running'].includes(s.job_status));
    this.say(row);
    if (row) { this.watch(key); return; }
    const failed = sets.find((s) => s.key === this.wanted && !s.ready);
    if (failed) this.studio.toast(failed.message || 'The images could not be placed.', 'bad');
    await this.arrived(key);
  }
  // Every pane that shows the map reads it again; camera, epoch and selection stay.
  async arrived(key) {
    this.wanted = null;
    for (const pane of this.room.shown) if (pane.map.key === key) await this.room.again(pane);
    this.render();
  }
  async off(set) {
    const { map } = this.pane;
    try {
      await this.studio.api(`${map.base}/placed/${set.key}`, undefined, { method: 'DELETE' });
      await this.arrived(map.key);
    } catch (error) {
      this.studio.toast(error.message, 'bad');
    }
  }
}
