// The buttons of a run: pause, resume, rename, note, archive, delete, repeat, clone, fit.
import { api } from '../../static/api.js';
import { ask, confirm, orToast, pick, toast } from '../../static/dialogs.js';
import { el, onEnter } from '../../static/dom.js';
import { bytes, plural } from '../../static/format.js';
import { lesionsLike } from './detector_forms.js';

/** @param {import('./run_view.js').RunView} view */
export function wireActions(view) {
  const { $, forms, changed, clone } = view;
  /** Resolves to the server's answer, or to null after a message. @template T @param {Promise<T>} asked */
  const answered = async (asked) => {
    const answer = await orToast(asked);
    await view.look().catch(() => {});
    return answer;
  };
  const act = (/** @type {string} */ action, value = '') =>
    answered(api(`/api/training/run/${view.id}/${action}`, { value }));
  const actAndTell = (/** @type {string} */ action, value = '') => act(action, value).then(() => changed());
  for (const action of ['pause', 'resume']) $(`.${action}`).onclick = () => actAndTell(action);

  $('.cancel').onclick = async () => {
    const question =
      'Cancel this run and the detectors that wait for it? Its last checkpoint is kept. To interrupt it, use Pause.';
    if (await confirm(question, 'Cancel run', 'Keep running')) await actAndTell('cancel');
  };
  const rename = async () => {
    const name = await ask('Name of the run', view.run().name);
    if (name) await actAndTell('rename', name);
  };
  $('.run-name').onclick = rename;
  onEnter($('.run-name'), rename);
  $('.note').onclick = async () => {
    const note = await ask('Note', view.run().note, { long: true });
    if (note !== null) await actAndTell('note', note);
  };
  $('.archive').onclick = async () => {
    await act(view.run().archived ? 'restore' : 'archive');
    changed($('.archived').checked ? undefined : null);
  };
  $('.delete').onclick = async () => {
    const frees = await answered(api(`/api/training/run/${view.id}/frees`, {}));
    if (!frees) return;
    const fits = view.children().length;
    const also = fits ? ` and the ${plural(fits, 'fit')} on it` : '';
    const text =
      `Delete “${view.run().name}”${also}, with metrics, scores and heat maps? ` +
      `It stays in the bin of the Study tab for a week; then ${bytes(frees.bytes)} are freed.`;
    if (!(await confirm(text, 'Delete'))) return;
    const done = await act('delete');
    if (!done) return;
    toast('In the bin for a week: see the Study tab.', 'good');
    view.id = null;
    changed(null);
  };
  $('.repeat').onclick = async () => {
    const made = await answered(api(`/api/training/run/${view.id}/repeat`, {}));
    if (made) changed(made.run);
  };
  $('.clone').onclick = () => clone(view.run());
  $('.fit').onclick = async () => {
    const titles = Object.fromEntries(Object.entries(forms.detectors).map(([name, d]) => [name, d.title]));
    const like = lesionsLike(forms);
    const question = 'Fit on this encoder, then score the study and evaluate:';
    const more = el('label', {}, 'Synthetic lesions for', like);
    const names = await pick(question, titles, [Object.keys(titles)[0]], 'Queue', more);
    if (!names?.length) return;
    const detectors = Object.fromEntries(names.map((n) => [n, forms.detectors[n].lesions[like.value] || {}]));
    if (await orToast(api(`/api/training/run/${view.id}/fit`, { detectors }))) changed();
  };
}
