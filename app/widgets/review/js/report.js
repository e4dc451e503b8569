// A report of the case on screen, for the printer or a PDF: pictures, reading, decisions, findings, version.
import { el } from '../../../static/dom.js';
import { fixed, moment, percent } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { paint } from './paint.js';
import { nameOf } from './reference.js';
import { isBox } from './tools.js';

const SIDE = 900; // pixels of a printed picture
const RESEARCH = 'Made with PMSACL Studio, for research use. Not a medical device; not for diagnosis.';

/** Draws the viewer's panes as a picture. @param {ReviewView} review @param {string} kind of pane @param {object} [show] */
function picture(review, kind, show = {}) {
  const { w = 1, h = 1 } = review.picture || {};
  const scale = SIDE / Math.max(w, h);
  const canvas = el('canvas', { width: Math.round(w * scale), height: Math.round(h * scale) });
  const context = canvas.getContext('2d');
  const view = { scale: scale / (devicePixelRatio || 1), dx: 0, dy: 0 };
  const panes = [{ kind, canvas, context }];
  paint(Object.assign(Object.create(review), { panes, view, show: { ...review.show, nearest: false, ...show } }));
  return el('img', { src: canvas.toDataURL('image/png'), alt: kind });
}

/** @param {string} name @param {Page.Child} value */
export const row = (name, value) => value && el('tr', {}, el('th', {}, name), el('td', {}, value));

/** @param {ReviewView} review */
function rows(review) {
  const { detail, setup, run, heat } = review;
  if (!detail || !setup) return [];
  const reading = run ? detail.readings?.[run] : null;
  const about = setup.runs.find((r) => r.id === run);
  const own = detail.mine.filter((r) => r.active);
  const said = own.map((r) => `${setup.reader}: ${r.decision}${r.stage === 'second' ? ' (second)' : ''}`);
  const others = (detail.others || []).map((o) => `${o.reader}: ${o.decision}`);
  const mask = detail.masks?.find((m) => m.id === review.maskId);
  const found = (detail.findings || []).map((f, i) => {
    const [x, y, right, bottom] = (f.box || []).map((v) => fixed(v, 0));
    const box = f.box && isBox(f.box) ? `box ${x}, ${y} to ${right}, ${bottom}` : `at ${x}, ${y}`;
    const place = f.mask_version ? `mask v${f.mask_version}` : f.box ? box : 'whole image';
    return el('li', {}, `${i + 1}. ${f.label} (${place}), ${f.reader}, ${moment(f.created)}`);
  });
  const at = heat && review.threshold.measured();
  const size = `${detail.width} x ${detail.height} pixels, ${detail.bits} bits`;
  const share = at && `area above the threshold ${percent(at.share)}`;
  const drawn = mask && [`version ${mask.version}`, mask.source, mask.reader, moment(mask.created)];
  return [
    row('Study', setup.study),
    row('Image', `${size}${detail.modality ? `, ${detail.modality}` : ''}`),
    row('Detector', about && `${about.title}, ${about.name} (${about.id}), ${moment(about.created)}`),
    row('Reading', reading && reading.percentile != null && `${fixed(reading.percentile, 1)} %: ${reading.words}`),
    row('Threshold', heat && fixed(heat.level)),
    row('Overlap', at?.dice != null && `Dice ${fixed(at.dice)} with the lesion mask; ${share}`),
    row('Lesion mask', drawn?.filter(Boolean).join(', ')),
    row('Decisions', [...said, ...others].join('; ') || 'none yet'),
    row('Comment', own[own.length - 1]?.comment),
    row('Findings', found.length > 0 && el('ul', {}, found)),
    row('Printed', `${moment(new Date().toISOString())}, version ${setup.version}`),
  ];
}

/** @param {ReviewView} review */
export function report(review) {
  const { detail } = review;
  if (!detail || detail.blind || !review.picture) return review.say('Nothing to print yet: decide first.');
  const figure = (/** @type {string} */ title, /** @type {Element} */ image) =>
    dom`<figure>${image}<figcaption>${title}</figcaption></figure>`;
  const [map, mask] = [
    { heat: true, contour: true },
    { heat: false, contour: false, mask: 'outline' },
  ];
  const content = dom`<div class="rv-report-pictures">
      ${figure('Image', picture(review, 'image'))}
      ${review.heat && figure('Heat map and contour', picture(review, 'overlay', map))}
      ${review.lesion && figure('Lesion mask', picture(review, 'overlay', mask))}
    </div>
    <table>${rows(review)}</table>`;
  return printed(nameOf(review, detail), content);
}

/** Prints a sheet, which is then removed from the page. @param {string} title @param {Page.Child} content */
export function printed(title, content) {
  const sheet = dom`<article class="rv-report">
    <h1>${title}</h1>
    ${content}
    <p class="rv-report-research">${RESEARCH}</p>
  </article>`;
  document.querySelector('.rv-report')?.remove();
  document.body.append(sheet);
  const images = [...sheet.querySelectorAll('img')].map((image) => image.decode().catch(() => null));
  addEventListener('afterprint', () => sheet.remove(), { once: true });
  return Promise.all(images).then(() => print());
}
