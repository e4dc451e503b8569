// Images of one's own, dropped on the picture or chosen: looked at instead of the study's, and not kept.
import { api } from '../../static/api.js';
import { orToast } from '../../static/dialogs.js';
import { finder } from '../../static/dom.js';

/** @param {HTMLElement} root @param {() => unknown} changed called when other images are to be shown */
export function ownImages(root, changed) {
  const $ = finder(root);
  const stage = $('.stage');
  const state = { drop: '' }; // the server's name for what was dropped
  /** @param {File[]} files */
  const take = async (files) => {
    if (!files.length) return;
    const { drop } = await api('/api/study/drop', {});
    for (const body of files)
      await api(`/api/study/drop/${drop}?path=${encodeURIComponent(body.name)}`, undefined, { method: 'PUT', body });
    state.drop = drop;
    $('.drop-off').hidden = false;
    await changed();
  };
  const leave = () => {
    state.drop = '';
    $('.drop-off').hidden = true;
  };
  stage.ondragover = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    stage.classList.add('over');
  };
  stage.ondragleave = () => stage.classList.remove('over');
  stage.ondrop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    stage.classList.remove('over');
    orToast(take([...(event.dataTransfer?.files || [])]));
  };
  $('.own').onclick = () => $('.own-files').click();
  $('.own-files').onchange = (/** @type {any} */ event) => {
    orToast(take([...event.target.files]));
    event.target.value = '';
  };
  $('.drop-off').onclick = () => {
    leave();
    changed();
  };
  return { state, leave };
}
