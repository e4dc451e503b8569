// The selection as pictures: counts by class, the images, and actions on them.
import { api } from '../../../static/api.js';
import { orToast, toast } from '../../../static/dialogs.js';
import { action, el, onEnter } from '../../../static/dom.js';

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
    const parts = [...counts]
      .sort((a, b) => b[1] - a[1])
      .map(([code, n]) =>
        el(
          'span',
          { class: 'part' },
          el('i', { style: `background:${this.clusters.colourCss(pane, code)}` }),
          `${names[code] === '\u2013' ? 'none' : names[code]} `,
          el('b', { class: 'num' }, n.toLocaleString('en')),
        ),
      );
    const grid = el('div', { class: 'tiles' });
    const more = el('button', { class: 'small more' }, 'More');
    let shown = 0;
    const add = () => {
      grid.append(...Array.from(points.slice(shown, shown + PAGE), (i) => this.tile(pane, i)));
      shown = Math.min(shown + PAGE, points.length);
      more.hidden = shown >= points.length;
      more.textContent = `Show more of the ${(points.length - shown).toLocaleString('en')} left`;
    };
    more.onclick = add;
    add();
    this.root.hidden = false;
    this.root.replaceChildren(
      el('div', { class: 'head' }, el('h2', {}, `${points.length.toLocaleString('en')} selected`)),
      el('div', { class: 'parts' }, parts),
      this.actions(pane, points),
      grid,
      more,
    );
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
    return el(
      'div',
      { class: 'actions' },
      name,
      action('Tag', tag),
      action('To worklist', () => orToast(act('worklist', {}, (d) => `${d.cases} cases are on your worklist.`)), {
        class: 'worklist',
        title: 'Assign these test cases to you: Review lists them',
      }),
    );
  }

  /** @param {Pane} pane @param {number} i */
  tile(pane, i) {
    return action(
      [
        el('img', { src: pane.map.thumb(i), alt: '', loading: 'lazy' }),
        el('i', { style: `background:${this.clusters.colourOf(pane, i)}` }),
      ],
      () => this.clusters.focus(pane, i),
      {
        class: 'thumb',
        'data-point': i,
        'data-case': pane.map.cases[i],
        onpointerenter: () => this.clusters.flash(pane, i),
        onpointerleave: () => this.clusters.flash(pane, -1),
      },
    );
  }
}
