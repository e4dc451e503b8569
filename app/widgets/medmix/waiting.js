// Work that may take a while: the time left, by the rate measured in this browser, and a stop button.
import { action, el, fill } from '../../static/dom.js';
import { seconds } from '../../static/format.js';
import { keep, kept } from '../../static/kept.js';

const KEY = 'pmsacl.medmix.rates'; // milliseconds per unit of work, by kind
const UNSAID = 600; // milliseconds before the first message

/**
 * Does work; meanwhile shows what it is, the time left, and a button to stop it.
 * @template T
 * @param {HTMLElement} place for the message
 * @param {{kind: string, words: string, amount: number}} what amount: units of work; the rate is stored by kind
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T | null>} null if it was stopped
 */
export async function waited(place, { kind, words, amount }, work) {
  const control = new AbortController();
  const rate = kept(KEY, /** @type {Record<string, number>} */ ({}))[kind];
  const began = performance.now();
  const left = el('span', { class: 'num' });
  const stop = action('Stop', () => control.abort(), { class: 'link' });
  const say = () => {
    const ms = rate && rate * amount - (performance.now() - began);
    left.textContent = !ms ? '…' : ms > 0 ? `, about ${seconds(Math.ceil(ms / 1000))} left ` : ', longer than usual ';
    if (!stop.isConnected) fill(place, el('span', {}, words), left, stop);
  };
  const timer = setInterval(say, UNSAID);
  try {
    const answer = await work(control.signal);
    keep(KEY, { ...kept(KEY, {}), [kind]: (performance.now() - began) / amount });
    return answer;
  } catch (error) {
    if (control.signal.aborted) return null;
    throw error;
  } finally {
    clearInterval(timer);
  }
}
