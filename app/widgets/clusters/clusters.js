// The Clusters tab. Everything lives in js/; this ties it to the page's study and tab.
import { Room } from './js/room.js';

export async function mount(root, studio) {
  const room = new Room(root, studio);
  root.scatter = room; // for tests
  const frame = root.querySelector('.scatter-room');
  const size = () => {
    const { top } = frame.getBoundingClientRect();
    if (frame.offsetParent) frame.style.height = `${Math.max(innerHeight - top - scrollY - 14, 480)}px`;
  };
  addEventListener('resize', size);
  new IntersectionObserver(size).observe(frame);
  const open = (study) => room.open(study).catch((error) => studio.toast(error.message, 'bad'));
  studio.on('study', open);
  // Training may have saved a first encoder meanwhile.
  studio.on('tab', (tab) => {
    if (tab !== 'clusters' || !room.study) return;
    room.form.load(room.study).then(() => room.listMaps()).catch((error) => studio.toast(error.message, 'bad'));
  });
  await open(studio.study);
}
