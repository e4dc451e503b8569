// The nearest-patch detector's comparison: the most abnormal patch of the case, and the normal patch most similar to it.
import { get } from '../../../static/api.js';
import { fixed } from '../../../static/format.js';
import { Answered } from '../../../static/store.js';
import { html, show } from '../../../static/view.js';
import { bare, inMiddle } from './parts.js';

const AROUND = 1.2; // margin shown on each side of a patch, as a fraction of its side

/** A patch with its surroundings, cut out of an image by the SVG's view box.
 * @param {{id: number, v?: string, width: number, height: number}} image @param {Answers.Explained['box']} box in fractions of
 * the image @param {string} text @param {unknown} [caption] */
function patch({ id, v, width, height }, [x0, y0, x1, y1], text, caption = text) {
  const [x, y, w, h] = [x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height];
  const side = Math.max(w, h) * (1 + 2 * AROUND);
  const left = Math.min(Math.max(0, x + w / 2 - side / 2), Math.max(0, width - side));
  const top = Math.min(Math.max(0, y + h / 2 - side / 2), Math.max(0, height - side));
  return html`<figure>
    <svg viewBox="${left} ${top} ${side} ${side}" role="img" aria-label=${text}>
      <image href="./api/case/${id}/image.png${v ? `?v=${v}` : ''}" width=${width} height=${height} />
      <rect x=${x} y=${y} width=${w} height=${h} />
    </svg>
    <figcaption class="dim" title=${text}>${caption}</figcaption>
  </figure>`;
}

/** Describes the distance, compared with distances of normal images. @param {Answers.Explained} found */
function howFar({ distance, usual }) {
  if (!usual) return `Most similar, distance ${fixed(distance, 2)}.`;
  const beside = `${usual.count} held-out normals: median ${fixed(usual.median, 2)}, maximum ${fixed(usual.largest, 2)}`;
  const like = distance > usual.largest ? '' : ', as between normal images';
  return `Most similar, distance ${fixed(distance, 2)}${like} (${beside}).`;
}

/** Builds a panel that is shown with the nearest normal image. @param {ReviewView} review */
export function explained(review) {
  const found = new Answered(
    () => {
      review.changes.value;
      const { detail, run, setup, show } = review;
      const compares = setup?.runs.find((r) => r.id === run)?.compares;
      return show.nearest && detail && !detail.blind && compares ? `${detail.id}/${run}` : null;
    },
    () => get(`/api/case/${review.detail?.id}/explain`, { run: review.run }),
  );
  function Comparison() {
    const answer = found.value;
    const { detail } = review;
    if (!answer?.ok || !detail) return null;
    const { id, width, height } = detail;
    const { name } = answer.case;
    return html`<div class="rv-pair">
        ${patch({ id, width, height }, answer.box, 'most abnormal')}
        ${patch(answer.case, answer.there, name, inMiddle(bare(name), 7))}
      </div>
      <p class="dim">${howFar(answer)}</p>`;
  }
  show(review.$('.rv-explained'), Comparison);
}
