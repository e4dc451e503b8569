// After an import: which kind of image it is, as guessed from the pictures, and what can be done next.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { el, finder } from '../../static/dom.js';
import { about } from '../../static/plan.js';

/**
 * @param {HTMLElement} root
 * @param {import('../../static/types').Studio} studio
 * @param {() => void} look begins a first look
 */
export function nextSteps(root, studio, look) {
  const $ = finder(root);
  const card = $('.next');
  const select = $('.next .kind');
  const path = (/** @type {string} */ study) =>
    /** @type {`/api/study/${string}`} */ (`/api/study/${encodeURIComponent(study)}`);

  /** @param {string | null} kept @param {string[]} [labels] */
  function said(kept, labels) {
    $('.next .confirm').hidden = Boolean(kept);
    const list = labels ? `; findings are labelled ${labels.slice(0, 3).join(', ')} …` : '';
    $('.next .kind-said').textContent = kept ? `✓ confirmed${list}` : 'guessed from the pictures; is it right?';
  }

  async function show() {
    const { study } = studio;
    card.hidden = true;
    if (!study) return;
    const next = await api(`${path(study)}/next`);
    if (study !== studio.study) return;
    const { kinds, guess, kept, scored, trained, look: seconds } = next;
    select.replaceChildren(...Object.entries(kinds).map(([name, title]) => el('option', { value: name }, title)));
    select.value = kept || guess || 'other';
    said(kept);
    $('.go-look span').textContent = scored
      ? 'Done: cases have scores; once more with quick detectors'
      : `Quick detectors on ready-made features; ${about(seconds)}, then every case has a score`;
    $('.go-review span').textContent = scored
      ? 'Cases by score, with heat maps; one key for a decision'
      : 'Read the cases now, without scores';
    $('.go-look').classList.toggle('main', !scored);
    $('.go-review').classList.toggle('main', scored);
    card.hidden = (scored && trained) || Boolean(studio.plan?.stages.length);
  }
  const confirm = async () => {
    const { study } = studio;
    if (!study) return;
    const { labels } = await api(`${path(study)}/kind`, { kind: select.value });
    if (study === studio.study) said(select.value, labels);
    studio.emit('kind', select.value);
  };
  $('.next .confirm').onclick = () => orToast(confirm());
  select.onchange = () => orToast(confirm());
  $('.go-look').onclick = look;
  $('.go-train').onclick = () => studio.openTab('training');
  $('.go-review').onclick = () => studio.openTab('review');
  let planned = false;
  studio.on('plan', ({ stages }) => {
    if (planned !== Boolean(stages.length)) orToast(show());
    planned = Boolean(stages.length);
  });
  return { show };
}
