// One key per act. The reader may change them; they are kept with the reader's settings.

export const ACTS = [
  ['normal', 'n', 'Normal, and on to the next case'],
  ['abnormal', 'a', 'Abnormal, and on to the next case'],
  ['unsure', 'u', 'Unsure, and on to the next case'],
  ['next', 'ArrowRight', 'Next case'],
  ['previous', 'ArrowLeft', 'Previous case'],
  ['unread', 'Tab', 'Next unread case'],
  ['undo', 'z', 'Undo: the last stroke while drawing, else the last decision'],
  ['redo', 'y', 'Redo'],
  ['comment', 'c', 'Write a comment (Escape returns to the image)'],
  ['heat', 'h', 'Heat map on or off'],
  ['contour', 'o', 'Contour at the threshold on or off'],
  ['mask', 'm', 'Lesion mask: outline, fill, off'],
  ['roi', 'r', 'Heat map in the region of interest only, or everywhere'],
  ['nearest', 'x', 'Nearest normal training image beside the case'],
  ['lower', '[', 'Lower the threshold'],
  ['higher', ']', 'Raise the threshold'],
  ['detector', 'd', 'The next detector'],
  ['layout', 'l', 'The next layout: one, two, three panes'],
  ['invert', 'i', 'Invert the image'],
  ['fit', 'f', 'Fit the image into the pane'],
  ['full', '1', 'One image pixel on one screen pixel'],
  ['zoomin', '+', 'Zoom in'],
  ['zoomout', '-', 'Zoom out'],
  ['peak', 'k', 'In a recording: the next peak of the score'],
  ['brush', 'b', 'Brush'],
  ['erase', 'e', 'Eraser'],
  ['polygon', 'p', 'Polygon (Enter closes it)'],
  ['take', 't', "Take this component of the heat map"],
  ['save', 's', 'Save the drawn mask as a new version'],
  ['help', '?', 'This sheet'],
]

const NAMES = { ArrowRight: '→', ArrowLeft: '←', ArrowUp: '↑', ArrowDown: '↓', ' ': 'Space', Escape: 'Esc', Tab: 'Tab' }

export function label(key) {
  return NAMES[key] || (key.length === 1 ? key.toUpperCase() : key)
}

export class Keys {
  constructor(run, listening) {
    this.own = {}
    this.run = run
    this.listening = listening
    this.waiting = null
    document.addEventListener('keydown', (event) => this.pressed(event))
  }

  of(act) {
    return this.own[act] || ACTS.find(([name]) => name === act)[1]
  }

  pressed(event) {
    if (!this.listening()) return
    if (this.waiting) {
      event.preventDefault()
      event.stopPropagation()
      if (!['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) this.waiting(event.key)
      return
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const target = event.target
    if (target.matches?.('input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true]')) {
      if (event.key === 'Escape') target.blur()
      return
    }
    const onRange = target.matches?.('input[type=range]') && event.key.startsWith('Arrow')
    const onButton = target.matches?.('button, summary, a') && (event.key === 'Enter' || event.key === ' ')
    // Tab reads on only from the image itself; from any control it moves the focus as everywhere.
    const onControl = event.key === 'Tab' && target.matches?.('button, input, summary, a, [tabindex="0"]')
    if (onRange || onButton || onControl || (event.key === 'Tab' && event.shiftKey)) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const act = ACTS.find(([name]) => this.of(name) === key)
    if (act) {
      event.preventDefault()
      this.run(act[0], event)
    } else if (event.key === 'Escape' || event.key === 'Enter') this.run(event.key, event)
  }

  // Resolves to the key pressed next, or null if another act has it already.
  async change(act) {
    const key = await new Promise((done) => {
      this.waiting = done
    })
    this.waiting = null
    const clean = key.length === 1 ? key.toLowerCase() : key
    if (clean === 'Escape' || clean === 'Enter') return null
    const taken = ACTS.find(([name]) => name !== act && this.of(name) === clean)
    if (taken) return { taken: taken[0], key: clean }
    this.own[act] = clean
    return { key: clean }
  }
}
