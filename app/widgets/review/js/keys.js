// One key per action. The reader may change them; they are stored with the reader's settings. Decision keys work while
// the viewer, or a slider, which ignores letters, has the focus: a letter meant for a menu decides nothing.
import { signal } from '@preact/signals';
import { post } from '../../../static/api.js';
import { finder } from '../../../static/dom.js';
import { button, html, show } from '../../../static/view.js';

/** The actions of keys: name, key, words. @type {[name: string, key: string, text: string][]} */
export const ACTS = [
  ['normal', 'n', 'Normal, then next case'],
  ['abnormal', 'a', 'Abnormal, then next case'],
  ['unsure', 'u', 'Unsure, then next case'],
  ['comment', 'c', 'Write a comment (Escape returns to the image)'],
  ['undo', 'z', 'Undo the last action (Ctrl+Z)'],
  ['redo', 'y', 'Redo (Ctrl+Y, Ctrl+Shift+Z)'],
  ['next', 'ArrowRight', 'Next case'],
  ['previous', 'ArrowLeft', 'Previous case'],
  ['unread', ' ', 'Next unread case (on a button or menu: presses it)'],
  ['grid', 'q', 'Switch the worklist between list and grid'],
  ['peak', 'k', 'In a recording: next peak of the score'],
  ['heat', 'h', 'Heat map on or off'],
  ['contour', 'o', 'Outline on or off, also for images that are not flagged'],
  ['lower', '[', 'Lower the threshold'],
  ['higher', ']', 'Raise the threshold'],
  ['roi', 'r', 'Heat map in the region of interest or everywhere'],
  ['mask', 'm', 'Lesion mask: outline, fill, off'],
  ['nearest', 'x', 'Nearest normal training image beside the case'],
  ['detector', 'd', 'Next detector'],
  ['layout', 'l', 'Next layout: one, two or three panes'],
  ['invert', 'i', 'Invert the image'],
  ['fit', 'f', 'Fit the image and undo flips and turns'],
  ['full', '0', 'One image pixel per screen pixel'],
  ['zoomin', '+', 'Zoom in'],
  ['zoomout', '-', 'Zoom out'],
  ['across', ',', 'Flip the view left to right'],
  ['down', '.', 'Flip the view upside down'],
  ['right', 'j', 'Turn the view by 90° to the right'],
  ['screen', 'v', 'Full screen on or off'],
  ['click', 'g', 'Grow a region from clicks (Alt or Shift: outside the lesion)'],
  ['snap', ';', 'Snap: turn the heat map’s region under the pointer into a mask'],
  ['box', '/', 'Box: drag around a lesion to make a mask'],
  ['brush', 'b', 'Brush'],
  ['erase', 'e', 'Eraser'],
  ['polygon', 'p', 'Polygon (Enter closes it)'],
  ['take', '\\', 'Use region: turn the clicked region of the heat map into a mask'],
  ['tag', 't', 'Add a tag'],
  ['save', 's', 'Save the drawn mask as a new version'],
  ['finished', '=', 'Fully annotated: the rest of this case counts as normal'],
  ['places', '#', 'Normal here: brush over normal areas (S saves them)'],
  ['place', "'", 'Mark the location of the next finding: drag a box, or click a point'],
  ['ruler', 'w', 'Ruler: drag to measure a length'],
  ['help', '?', 'Show this help'],
];

/** The sheet of keys, in groups: each starts with an action and ends before the next group's. */
export const GROUPS = /** @type {Record<string, string>} */ ({
  normal: 'Decide',
  next: 'Cases',
  heat: 'Heat map and mask',
  layout: 'Picture',
  click: 'Draw and measure',
  help: 'Help',
});

/** @type {Record<string, string>} */
const NAMES = {
  ArrowRight: '→',
  ArrowLeft: '←',
  ArrowUp: '↑',
  ArrowDown: '↓',
  ' ': 'Space',
};

/** Returns a key's label on a button. @param {string} key */
export const label = (key) => NAMES[key] || (key.length === 1 ? key.toUpperCase() : key);

const DECISIONS = ['normal', 'abnormal', 'unsure'];
const TEXT =
  'input:not([type=range]):not([type=checkbox]):not([type=radio]):not([readonly]), textarea, [contenteditable=true]';
const PRESSED = 'button, summary, a, select, input[type=checkbox], input[type=radio]'; // by Enter and Space
const SLIDER = 'input[type=range]';
const ARROWS = 'input[type=range], input[type=radio], select';

export class Keys {
  /** @param {(name: string, event: KeyboardEvent) => void} run @param {() => boolean} listening @param {{has: () =>
   * boolean, take: () => void, refuse: (key: string) => void}} viewer whether it has the focus, how it takes it, and
   * the message if a decision key is ignored */
  constructor(run, listening, viewer) {
    /** @type {Record<string, string>} keys changed by the reader */
    this.own = {};
    this.run = run;
    this.listening = listening;
    this.viewer = viewer;
    /** @type {((key: string) => void) | null} takes the next key while one is being changed */
    this.waiting = null;
    document.addEventListener('keydown', (event) => this.pressed(event));
  }

  /** Returns the key of an action. @param {string} act */
  of(act) {
    return this.own[act] || ACTS.find(([name]) => name === act)?.[1] || '';
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (!this.listening()) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (this.waiting) {
      event.preventDefault();
      event.stopPropagation();
      if (!['Shift', 'Control', 'Alt', 'Meta'].includes(key)) this.waiting(key);
      return;
    }
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      const wish = event.altKey ? '' : `${event.shiftKey ? 'shift ' : ''}${key}`;
      const travel = { z: 'undo', y: 'redo', 'shift z': 'redo' }[wish];
      if (!travel || target?.matches(TEXT)) return; // text fields have their own undo
      event.preventDefault();
      return this.run(travel, event);
    }
    if (target?.matches(TEXT)) {
      if (event.key === 'Escape') this.viewer.take();
      return;
    }
    const inside = this.viewer.has();
    if (event.key === 'Tab' && (event.shiftKey || !inside)) return;
    if (target?.matches(PRESSED) && (event.key === 'Enter' || event.key === ' ')) return;
    if (target?.matches(ARROWS) && event.key.startsWith('Arrow')) return;
    if (event.key === 'Escape' && !inside) return this.viewer.take();
    const act = ACTS.find(([name]) => this.of(name) === key);
    if (act && DECISIONS.includes(act[0])) {
      event.preventDefault();
      if (event.repeat) return;
      if (target?.matches(SLIDER)) this.viewer.take();
      else if (!inside) return this.viewer.refuse(label(key));
    }
    if (!act && /^[1-9]$/.test(key) && inside) return this.run(`finding ${key}`, event);
    if (act?.[0] === 'unread') this.viewer.take();
    if (act) {
      event.preventDefault();
      this.run(act[0], event);
    } else if (event.key === 'Escape' || event.key === 'Enter') this.run(event.key, event);
  }

  /** Resolves to the next pressed key, which runs no action. @returns {Promise<string>} */
  async next() {
    const key = await new Promise((done) => {
      this.waiting = done;
    });
    this.waiting = null;
    return key;
  }
}

/** The help sheet: every key, and how to change it.
 * @param {ReviewView} review @param {Keys} keys */
export function helpSheet(review, keys) {
  const sheet = review.$('.rv-help');
  const [rows, note, close] = ['.rv-keys', '.rv-said', '.main'].map(finder(sheet));
  const changing = signal(''); // the action whose key is being changed
  close.onclick = () => sheet.close();
  async function change(/** @type {string} */ act) {
    changing.value = act;
    note.textContent = 'Press the new key; Escape keeps the old one.';
    const key = await keys.next();
    const taken = ACTS.find(([name]) => name !== act && keys.of(name) === key);
    if (key === 'Escape' || key === 'Enter') note.textContent = 'Not changed.';
    else if (taken) note.textContent = `${label(key)} is already the key for: ${taken[2]}. Change that first.`;
    else {
      keys.own[act] = key;
      note.textContent = `Changed to ${label(key)}.`;
      post('/api/review/settings', { keys: keys.own });
      review.redraw();
    }
    changing.value = '';
  }
  const line = (/** @type {typeof ACTS[number]} */ [act, , text]) => {
    const words = changing.value === act ? 'press …' : label(keys.of(act));
    const key = button(words, () => change(act), { class: 'rv-key' });
    return html`${GROUPS[act] && html`<h3>${GROUPS[act]}</h3>`}<div>${key}<span>${text}</span></div>`;
  };
  const Rows = () => ACTS.map(line);
  sheet.oncancel = (/** @type {Event} */ event) => keys.waiting && event.preventDefault();
  sheet.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (!keys.waiting && event.key.toLowerCase() === keys.of('help')) {
      event.stopPropagation();
      sheet.close();
    }
  };
  return {
    element: sheet,
    open() {
      show(rows, Rows, { own: keys.own }); // drawn again once the settings have been read again
      if (!sheet.open) sheet.showModal();
    },
  };
}
