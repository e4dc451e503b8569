// Metadata of the case on screen: file, size, spacing, patient's key, import. In a blind reading only its size.
import { fill, finder } from '../../../static/dom.js';
import { moment } from '../../../static/format.js';
import { dom } from '../../../static/view.js';
import { nameOf } from './reference.js';

/** @param {Answers.CaseDetail['spacing']} spacing */
function spaced(spacing) {
  if (!spacing) return '';
  const [x, y] = [spacing.x, spacing.y].map((v) => String(Number(v.toPrecision(4))));
  return `${x === y ? x : `${x} × ${y}`} mm a pixel${spacing.at === 'detector' ? ', at the detector' : ''}`;
}

/** Builds the rows of the panel; unknown values are skipped.
 * @param {Answers.CaseDetail} detail @param {string} name as it may be shown @returns {[title: string, value: string, tip?:
 * string][]} */
export function known(detail, name) {
  const { about, width, height, bits } = detail;
  const black = about?.shown_from;
  const keyed = 'Start of a keyed hash: the same for all images of a patient; it cannot be reversed';
  const burned = 'Burned-in text may name a patient: check before sharing images';
  /** @type {[string, string, string?][]} */
  const rows = [
    ['File', name],
    ['Number', about ? String(detail.id) : '', 'The case’s number in exported tables'],
    ['Size', `${width} × ${height} pixels`],
    ['Depth', bits ? `${bits} bits` : ''],
    ['Format', about?.format || ''],
    ['Modality', detail.modality || ''],
    ['Spacing', spaced(detail.spacing)],
    ['Grey range', black ? black.join(' to ') : '', 'Stored values for black and white; one scale per scanner'],
    ['Series', about && (detail.frames || 0) > 1 ? `one of ${detail.frames} images` : ''],
    ['Patient', about?.patient || '', keyed],
    ['Study', about ? `${about.study}, ${detail.split}` : ''],
    ['Imported', about ? moment(about.added) : ''],
    ['Text', about?.text ? 'likely in the image' : '', burned],
    ['Header', (about?.odd ?? []).join('; '), 'Implausible values in the file'],
  ];
  return rows.filter(([, value]) => value);
}

/** @param {ReviewView} review */
export function aboutPanel(review) {
  const element = review.$('.rv-about');
  const $ = finder(element);
  element.ontoggle = () => {
    if (element.open !== review.show.about) review.display.set({ about: element.open });
  };
  const row = (/** @type {(string | undefined)[]} */ [title, value, tip]) =>
    dom`<div title=${tip}><dt>${title}</dt><dd>${value}</dd></div>`;
  return {
    reflect() {
      const { detail, show } = review;
      element.hidden = !detail;
      element.open = show.about;
      if (!detail) return;
      $('p').hidden = Boolean(detail.about);
      fill($('dl'), known(detail, nameOf(review, detail)).map(row));
    },
  };
}
