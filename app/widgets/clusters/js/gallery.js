// The selection as pictures: counts by class, the images, and actions on them.
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { action, el, onEnter } from '../../../static/dom.js';
import { dom } from '../../../static/view.js';

/** @typedef {import('./pane.js').Pane} Pane */

const PAGE = 40;

export class Gallery {
  /** @param {HTMLElement} root @param {import('./cluster_view.js').ClusterView} clusters */
  constructor(root, clusters) {
    this.root = root;
    this.clusters = clusters;
  }

  /** @param {Pane} pane @param {number[]} points */
  render(pane, points) {
    const { codes, names = [] } = pane.column;
    const counts = new Map();
    if (codes) for (const i of points) counts.set(codes[i], (counts.get(codes[i]) || 0) + 1);
    const part = (/** @type {[number, number]} */ [code, n]) => dom`<span class="part">
      <i style="background:${this.clusters.colourCss(pane, code)}" />
      ${names[code] === '\u2013' ? 'none' : names[code]} <b class="num">${n.toLocaleString('en')}</b>
    </span>`;
    const grid = el('div', { class: 'tiles' });
    const more = el('button', { class: 'small more' }, 'More');
    let shown = 0;
    const add = () => {
      grid.append(...Array.from(points.slice(shown, shown + PAGE), (i) => this.tile(pane, i)));
      shown = Math.min(shown + PAGE, points.length);
      more.hidden = shown >= points.length;
      more.textContent = `Show more (${(points.length - shown).toLocaleString('en')} left)`;
    };
    more.onclick = add;
    add();
    this.root.hidden = false;
    const head = dom`<div class="head"><h2>${points.length.toLocaleString('en')} selected</h2></div>
      <div class="parts">${[...counts].sort((a, b) => b[1] - a[1]).map(part)}</div>`;
    this.root.replaceChildren(...head, this.actions(pane, points), grid, more);
  }

  // Tags and the worklist are for cases: MedMix versions among the points are skipped, with a message.
  /** @param {Pane} pane @param {number[]} points */
  actions(pane, points) {
    const own = Array.from(points).filter((i) => i < pane.map.own);
    /** @param {'tag' | 'worklist'} what @param {object} body @param {(done: any) => string} say */
    const act = async (what, body, say) => {
      if (!own.length) throw new Error('Images placed on a map are not cases of its study: import them first.');
      const done = await api(`${pane.map.base}/${what}`, { points: own, ...body });
      const left = done.left_out + points.length - own.length;
      toast(say(done) + (left ? ` ${left} points are not cases and were skipped.` : ''), 'good');
      await Promise.all(this.clusters.shown.map((p) => p.refreshColumns(p.fit)));
      this.clusters.legend.render(pane);
    };
    const name = el('input', { type: 'text', class: 'tag', placeholder: 'tag', maxlength: 60, 'aria-label': 'Tag' });
    const tag = () =>
      name.value.trim() &&
      orToast(act('tag', { tag: name.value }, (d) => `${d.cases} cases tagged \u201c${d.tag}\u201d.`));
    onEnter(name, tag);
    const list = () => orToast(act('worklist', {}, (d) => `${d.cases} cases are on your worklist.`));
    const title = 'Assign these test cases to you: Review lists them';
    return dom`<div class="actions">
      ${name}${action('Tag', tag)}${action('Add to worklist', list, { class: 'worklist', title })}
    </div>`;
  }

  /** @param {Pane} pane @param {number} i */
  tile(pane, i) {
    const { clusters } = this;
    return dom`
      <button type="button" class="thumb" data-point=${i} data-case=${pane.map.cases[i]} onclick=${() => clusters.focus(pane, i)}
        onpointerenter=${() => clusters.flash(pane, i)} onpointerleave=${() => clusters.flash(pane, -1)}>
        <img src=${pane.map.thumb(i)} alt="" loading="lazy" /><i style="background:${clusters.colourOf(pane, i)}" />
      </button>`;
  }
}
