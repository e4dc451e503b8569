// What the current detector would miss: lesions with the settings on screen, planted into held-out normals.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { action, el, fill } from '../../static/dom.js';
import { tidy } from '../../static/fields.js';
import { percent } from '../../static/format.js';
import { waited } from './waiting.js';

/** Draws lines through points, on axes from 0 to the maximum. @param {{points: [number, number][], dash?: boolean}[]} lines @param {string} title @param {string} below @param {number} [most] maximum of y
 * @param {[number, number]} [shade] a range of x */
export function curve(lines, title, below, most, shade) {
  const all = lines.flatMap((line) => line.points);
  const [wide, high] = [Math.max(...all.map(([x]) => x), 1e-6), most || 1.1 * Math.max(...all.map(([, y]) => y), 1e-6)];
  const place = (/** @type {[number, number]} */ [x, y]) => `${34 + (256 * x) / wide},${96 - (86 * y) / high}`;
  const level = (/** @type {number} */ y) => {
    const at = 96 - (86 * y) / high;
    return [
      el('line', { class: 'level', x1: 34, x2: 290, y1: at, y2: at }),
      el('text', { x: 30, y: at + 3, 'text-anchor': 'end' }, tidy(y)),
    ];
  };
  const [from, to] = (shade || [0, 0]).map((x) => 34 + (256 * Math.min(x, wide)) / wide);
  return el(
    'svg',
    { class: 'curve', viewBox: '0 0 300 118', role: 'img', 'aria-label': title },
    shade && el('rect', { class: 'shade', x: from, y: 10, width: to - from, height: 86 }),
    [0, Number((high / 2.2).toPrecision(1)), Number((high / 1.1).toPrecision(2))].map(level),
    lines.map(({ points, dash }) => el('polyline', { class: dash ? 'dash' : '', points: points.map(place).join(' ') })),
    el('text', { x: 290, y: 112, 'text-anchor': 'end' }, below),
  );
}

/** Shows a button for the measurement, then its curve. @param {HTMLElement} place @param {() => {study: string | null, config:
 * Values}} scene the settings on screen */
export function offerMissed(place, scene) {
  const offer = () =>
    fill(
      place,
      el('p', { class: 'dim' }, 'Plants such lesions into held-out normals and counts those not flagged.'),
      action('Measure', () => orToast(measure())),
    );
  const measure = async () => {
    const words = el('p', { class: 'dim' });
    fill(place, words);
    const body = scene();
    const what = { kind: 'missed', words: 'Planting lesions', amount: 1 };
    try {
      const found = await waited(words, what, (signal) => api('/api/medmix/missed', body, { signal }));
      if (found) show(found, body.config.size);
      else offer();
    } catch (error) {
      offer();
      throw error;
    }
  };
  /** @param {import('../../static/answers').Missed} found @param {[number, number]} sizes of the settings */
  const show = ({ name, planted }, sizes) => {
    const opacities = [...new Set(planted.map((row) => row.contrast))].sort((a, b) => b - a);
    const lines = opacities.map((opacity, i) => {
      const rows = planted.filter((row) => row.contrast === opacity);
      const points = rows.map((row) => /** @type {[number, number]} */ ([row.size, 1 - row.flagged / row.images]));
      return { dash: i > 0, points };
    });
    const title = `Share of lesions that “${name}” does not flag, by size`;
    const drawn = opacities.map((opacity, i) => `${['solid', 'dashed'][i]}: opacity ${percent(opacity, 0)}`).join(', ');
    fill(
      place,
      curve(lines, title, 'size, share of the side', 1.1, sizes),
      el(
        'p',
        { class: 'dim' },
        `${title}; ${planted[0].images} images each; ${drawn}, shaded: the sizes of these settings.`,
      ),
      action('Measure again', () => orToast(measure()), { class: 'link' }),
    );
  };
  offer();
}
