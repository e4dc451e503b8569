// The Clusters tab: its maps, and the panels next to them.
import { effect } from '@preact/signals';
import { finder, finderOfAll } from '../../static/dom.js';
import { study } from '../../static/store.js';
import { html, show } from '../../static/view.js';
import { showDetail } from './js/detail.js';
import { follow, MapForm } from './js/forms.js';
import { Bar } from './js/menus.js';
import { Pane, Tip } from './js/pane.js';
import { Legend, Numbers } from './js/panels.js';
import * as state from './js/state.js';

const NOTHING = {
  study: ['No study yet', 'Import one in the Study tab.'],
  waiting: ['A map is being drawn', 'It opens here automatically.'],
  map: [
    'No map yet',
    'Choose an encoder and a method on the left, then draw the map. Every point is an image in feature space.',
  ],
  encoder: ['No encoder yet', 'Train an encoder in the Training tab. Its snapshots can be mapped during the training.'],
};

/** Says why there is no map. */
function Nothing() {
  const { panes, opening, refusal, drawing, listed } = state;
  if (panes[0].map || opening.value) return null;
  const kind = !study.value ? 'study' : drawing.value ? 'waiting' : listed.value.runs.length ? 'map' : 'encoder';
  const [title, text] = refusal.value ? ['No map is shown', refusal.value] : NOTHING[kind];
  return html`<div class="nothing panel"><h2>${title}</h2><p class="dim">${text}</p></div>`;
}

/** @param {HTMLElement & { scatter?: typeof state }} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const $ = finder(root);
  root.scatter = state; // for tests
  state.panes.push(...finderOfAll(root)('.pane').map((place, i) => new Pane(place, i + 1)));
  effect(() => {
    state.panes[1].root.hidden = !state.isSplit.value;
  });
  const views = { draw: MapForm, legend: Legend, bar: Bar, why: Nothing, numbers: Numbers };
  for (const [place, View] of Object.entries(views)) show($(`.${place}`), View);
  showDetail($('.detail'));
  show($('.at-point'), Tip, { root });
  const frame = $('.scatter-room');
  const size = () => {
    const { top } = frame.getBoundingClientRect();
    if (frame.offsetParent) frame.style.height = `${Math.max(innerHeight - top - scrollY - 14, 480)}px`;
  };
  addEventListener('resize', size);
  new IntersectionObserver(size).observe(frame);
  studio.on('study', state.openStudy);
  for (const event of ['tab', 'back']) studio.on(event, () => studio.shown(root) && state.renew());
  studio.on('status', () => {
    const { opening, refusal, drawing, panes } = state;
    const none = study.value && !refusal.value && !panes[0].map && studio.shown(root); // a first look draws a map
    if (!opening.value && (drawing.value || none)) state.list().catch(console.debug);
    follow().catch(console.debug);
  });
  await state.openStudy();
}
