// One map with its title and, where it has several epochs, the scrubber below it.
import { loadColumns, loadMap } from './model.js';
import { colouring } from './palette.js';
import { Plot } from './plot.js';
import { attach } from './tools.js';

export class Pane {
  constructor(room, number) {
    const { el } = room.studio;
    Object.assign(this, { room, number });
    this.pick = el('select', { class: 'which', 'aria-label': `Map ${number + 1}`, onchange: () => room.show(this, this.pick.value) });
    this.host = el('div', { class: 'plot' });
    this.slider = el('input', { type: 'range', min: 0, step: 0.01, 'aria-label': `Epoch of map ${number + 1}`, oninput: () => this.seek(+this.slider.value, true), onchange: () => this.seek(Math.round(this.slider.value)) });
    this.play = el('button', { class: 'play', 'aria-label': 'Play the epochs', onclick: () => this.toggle() }, '\u25b6');
    this.says = el('span', { class: 'num epoch' });
    this.scrubber = el('div', { class: 'scrubber', hidden: true }, this.play, this.slider, this.says);
    this.root = el('div', { class: 'pane', 'data-pane': number }, el('div', { class: 'title' }, this.pick), this.host, this.scrubber);
    this.plot = new Plot(this.host, room.studio);
    attach(this.plot, {
      tool: () => room.tool,
      active: () => room.activate(this),
      hover: (i, x, y) => room.tip(this, i, x, y),
      click: (i, add) => room.click(this, i, add),
      select: (found, add) => room.select(this, found, add),
      key: (key) => room.key(key),
    });
  }

  async open(key) {
    this.stop();
    const { studio } = this.room;
    const turn = (this.turn = (this.turn || 0) + 1);
    const map = await loadMap(studio, key);
    const fit = map.fits.some((f) => f.id === this.room.fit) ? this.room.fit : map.fits[0]?.id;
    const columns = await loadColumns(studio, map, fit);
    if (turn !== this.turn) return false; // a later choice has been made meanwhile
    Object.assign(this, { map, columns, fit });
    this.plot.only = null;
    this.plot.setMap(map);
    this.slider.max = map.epochs - 1;
    this.scrubber.hidden = map.epochs < 2;
    this.pick.value = key;
    this.recolour();
    this.seek(map.epochs - 1);
    return true;
  }

  async refreshColumns(fit) {
    if (!this.map) return;
    this.fit = this.map.fits.some((f) => f.id === fit) ? fit : this.map.fits[0]?.id;
    this.columns = await loadColumns(this.room.studio, this.map, this.fit);
    this.recolour();
  }

  // `column` is what the points on the screen are coloured by, whatever has been chosen since.
  recolour() {
    if (!this.map) return;
    const column = this.columns.get(this.room.colour) || this.columns.get('class');
    const done = colouring(column, this.room.hidden.get(column.name) || new Set());
    this.column = column;
    Object.assign(this.plot, { codes: column.codes, names: column.names });
    this.plot.setColours(done, done);
  }

  get epochIndex() { return Math.round(this.plot.time); }
  get epoch() { return this.map.about.epochs[this.epochIndex].epoch; }
  seek(time, still = false) {
    this.slider.value = time;
    this.plot.setTime(time);
    const shown = `epoch ${this.epoch}`;
    if (this.says.textContent !== shown || !still) {
      this.says.textContent = shown;
      this.room.epochChanged(this, still);
    }
  }

  // One epoch takes 0.9 seconds; from the last it starts again.
  toggle() {
    if (this.running) { this.stop(); return; }
    let time = this.plot.time >= this.map.epochs - 1 ? 0 : this.plot.time;
    let before = performance.now();
    this.play.textContent = '\u275a\u275a';
    this.play.setAttribute('aria-label', 'Pause');
    const go = (now) => {
      time = Math.min(time + (now - before) / 900, this.map.epochs - 1);
      before = now;
      this.seek(time, time < this.map.epochs - 1);
      if (time >= this.map.epochs - 1) this.stop();
      else this.running = requestAnimationFrame(go);
    };
    this.running = requestAnimationFrame(go);
  }
  stop() {
    if (!this.running) return;
    cancelAnimationFrame(this.running);
    this.running = 0;
    this.play.textContent = '\u25b6';
    this.play.setAttribute('aria-label', 'Play the epochs');
    this.seek(Math.round(this.plot.time));
  }
}
