// While a study is read blind in an open session, its tab shows no name and no label: a word, and a way to end the session.
import { api } from '../../static/api.js';
import { orToast, toast } from '../../static/dialogs.js';
import { html } from '../../static/view.js';

/** @param {{studio: import('../../static/types').Studio}} props */
export function Covered({ studio }) {
  const end = async () => {
    await api('/api/reading/end', {});
    toast('The session has ended; its summary is in Review.', 'good');
    await studio.renewStatus();
  };
  return html`<h2>A blind session is open</h2>
    <p>What this study holds would reveal the labels. It is shown again when the session has ended.</p>
    <div>
      <button type="button" class="main" onClick=${() => studio.openTab('review')}>Go on reading</button>
      <button type="button" onClick=${() => orToast(end())}>End the session</button>
    </div>`;
}
