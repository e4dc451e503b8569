// The score over a recording's frames or a volume's slices, under the viewer: click a frame, or go to the next peak.
import { get } from '../../../static/api.js';
import { Answered, shownCase } from '../../../static/store.js';
import { html, show } from '../../../static/view.js';

const WIDTH = 1000;
const FLAGGED = 95; // percentile of held-out normals at which a case is flagged

/** @param {ReviewView} review */
export function timeline(review) {
  const found = new Answered(
    () => {
      review.changes.value;
      const { study, run, detail } = review;
      const several = detail?.frames && detail.frames > 1 && !detail.blind;
      return several ? `${study}/${run}/${detail.recording}/${detail.frames}` : null; // slices may still arrive
    },
    () => get(`/api/review/timeline/${review.detail?.id}`, { run: review.run }),
  );
  const shown = () => (found.value?.ok ? found.value.frames : []);
  const here = () => shown().findIndex((f) => f.id === review.detail?.id);

  function Curve() {
    shownCase.value;
    const frames = shown();
    if (frames.length < 2) return null;
    const x = (/** @type {number} */ i) => ((i + 0.5) * WIDTH) / frames.length;
    const y = (/** @type {number | null} */ p) => 50 - 0.46 * (p ?? 0);
    const path = frames.map((f, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(f.percentile).toFixed(1)}`).join(' ');
    const now = x(here());
    const pick = (/** @type {any} */ { clientX, currentTarget }) => {
      const box = currentTarget.getBoundingClientRect();
      const i = Math.floor(((clientX - box.left) / box.width) * frames.length);
      review.goTo(frames[Math.min(frames.length - 1, i)].id);
    };
    return html`
      <svg viewBox="0 0 ${WIDTH} 54" preserveAspectRatio="none" role="img" aria-label="Score over the frames" onClick=${pick}>
        <line class="rv-limit" x1="0" x2=${WIDTH} y1=${y(FLAGGED)} y2=${y(FLAGGED)} />
        <path d=${path} />
        <line x1=${now} x2=${now} y1="0" y2="54" />
      </svg>`;
  }
  show(review.$('.rv-timeline'), Curve);

  return function peak() {
    const frames = shown();
    if (frames.length < 2) return review.say('This case is a single image; only recordings and volumes have peaks.');
    const scores = frames.map((f) => f.score);
    const i = nextPeak(scores, here());
    return i < 0 ? review.say('The score has no peak here.') : review.goTo(frames[i].id);
  };
}

// Peaks of the score over a recording's frames or a volume's slices.
const LOOK = 12; // frames on either side that a peak must exceed

/** Says whether score i exceeds all within `look` before it and is not below those after: the first of a plateau.
 * @param {(number | null)[]} scores @param {number} i */
export function isPeak(scores, i, look = LOOK) {
  const score = (/** @type {number} */ k) => scores[k] ?? -Infinity;
  for (let d = 1; d <= look; d += 1) if (score(i - d) >= score(i) || score(i + d) > score(i)) return false;
  return score(i) > -Infinity;
}

/** The next peak after frame `at`, wrapping round; -1 without one. @param {(number | null)[]} scores @param {number} at */
export function nextPeak(scores, at, look = LOOK) {
  for (let step = 1; step <= scores.length; step += 1) {
    const i = (at + step) % scores.length;
    if (isPeak(scores, i, look)) return i;
  }
  return -1;
}
