// What the studio says by itself: one stream of events for all tabs of a browser, since a browser keeps six connections
// to a host and Gradio holds one for each tab. The tab that holds the lock has the stream and passes on what comes.

/** @typedef {{status?: import('./answers').Status, lost?: boolean}} Said a status, that nothing is heard, or a beat */

const NAME = 'pmsacl.events';
const SILENT = 25_000; // milliseconds: two beats of app/routes/_changes.py and some
const AGAIN = 1000; // milliseconds until a stream that broke off is opened again

/** Keeps a stream open. @param {(said: Said) => void} say @returns {(wanted: boolean) => void} opens or closes it */
function listen(say) {
  /** @type {EventSource | undefined} */
  let source;
  let due = 0;
  let failed = 0; // times in a row: the server ends a stream after an hour, which is no loss
  const heard = (/** @type {Said} */ said) => {
    failed = 0;
    clearTimeout(due);
    due = window.setTimeout(broken, SILENT, true);
    say(said);
  };
  const broken = (/** @type {boolean} */ silent) => {
    close();
    failed += 1;
    if (silent || failed > 1) say({ lost: true });
    due = window.setTimeout(open, AGAIN);
  };
  const close = () => {
    clearTimeout(due);
    source?.close();
  };
  const open = () => {
    close();
    source = new EventSource('./api/status/events');
    source.onerror = () => broken(false);
    source.addEventListener('status', ({ data }) => heard({ status: JSON.parse(data) }));
    source.addEventListener('beat', () => heard({}));
    due = window.setTimeout(broken, SILENT, true);
  };
  return (wanted) => (wanted ? open() : close());
}

/** Calls `take` with all that the studio says, in this tab or in the one that has the stream. @param {(said: Said) => void} take */
export function follow(take) {
  // No locks at a plain http address that is not this machine: there each tab has its own stream, while it is in sight.
  if (!navigator.locks) {
    const wanted = listen(take);
    document.addEventListener('visibilitychange', () => wanted(!document.hidden));
    return wanted(!document.hidden);
  }
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }) => take(data);
  navigator.locks.request(NAME, () => {
    listen((said) => {
      channel.postMessage(said);
      take(said);
    })(true);
    return new Promise(() => {}); // until this tab is closed
  });
}
