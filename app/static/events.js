// Events from the studio: one stream for all tabs of a browser, because a browser allows six connections to a host and
// Gradio uses one for each tab. The tab that holds the lock has the stream and passes its messages on.

/** @typedef {{status?: Answers.Status, lost?: boolean}} Said a status, a lost connection, or a heartbeat */

const NAME = 'pmsacl.events';
const SILENT = 25_000; // milliseconds: a little more than two heartbeats of app/routes/_changes.py
const AGAIN = 1000; // milliseconds until a broken stream is reopened

/** Keeps a stream open. @param {(said: Said) => void} say @returns {(wanted: boolean) => void} opens or closes it */
function listen(say) {
  /** @type {EventSource | undefined} */
  let source;
  let due = 0;
  let failed = 0; // failures in a row: the server ends a stream after an hour, which is normal
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

/** Calls `take` with each message, received by this tab or by the one with the stream. @param {(said: Said) => void} take */
export function follow(take) {
  // There are no locks at a plain http address of another machine: there each visible tab has its own stream.
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
