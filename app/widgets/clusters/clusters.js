// The Clusters tab: connects the code in js/ to the page's study and tab.
import { finder } from '../../static/dom.js';
import { ClusterView } from './js/cluster_view.js';

/** @param {HTMLElement & { scatter?: ClusterView }} root @param {Page.Studio} studio */
export async function mount(root, studio) {
  const clusters = new ClusterView(root, studio);
  root.scatter = clusters; // for tests
  const frame = finder(root)('.scatter-room');
  const size = () => {
    const { top } = frame.getBoundingClientRect();
    if (frame.offsetParent) frame.style.height = `${Math.max(innerHeight - top - scrollY - 14, 480)}px`;
  };
  addEventListener('resize', size);
  new IntersectionObserver(size).observe(frame);
  const open = (/** @type {string | null} */ study) => clusters.open(study);
  studio.on('study', open);
  // Training may have saved a first encoder meanwhile.
  const again = () => {
    const { study, form } = clusters;
    if (!study || !studio.shown(root)) return;
    if (clusters.refusal) open(study);
    else
      form
        .load(study)
        .then(() => clusters.listMaps())
        .catch(() => open(study)); // data that the reader may no longer see are removed, with the reason
  };
  for (const event of ['tab', 'back']) studio.on(event, again);
  studio.on('status', () => {
    const none = clusters.study && !clusters.refusal && !clusters.panes[0].map && studio.shown(root); // a first look draws a map
    if (clusters.waiting || none) clusters.listMaps().catch(console.debug);
    clusters.projecting.follow().catch(console.debug);
  });
  await open(studio.study);
}
