// Formats numbers for readers.

/** @param {number} v @param {number} lo @param {number} hi */
export const clamp = (v, lo, hi) => Math.min(hi, Math.max(lo, v));

/** Formats a share in 0..1 as per cent; a dash if it is null. @param {number | null} v @param {number} [digits] */
export const percent = (v, digits = 1) => (v === null ? '–' : `${(100 * v).toFixed(digits)} %`);

/** Formats a share of n cases in per cent, with its 95 % Wilson interval. @param {number | null} p @param {number} n */
export function shareOf(p, n) {
  if (p === null || !n) return '–';
  const z2 = 1.96 ** 2 / n;
  const middle = (p + z2 / 2) / (1 + z2);
  const half = Math.sqrt(z2 * p * (1 - p) + z2 ** 2 / 4) / (1 + z2);
  const [low, high] = [middle - half, middle + half].map((v) => (100 * Math.min(Math.max(v, 0), 1)).toFixed(1));
  return `${percent(p)} (${low} to ${high})`;
}

/** A number with `digits` decimals; a dash if missing. @param {number | null | undefined} v @param {number} [digits] */
export const fixed = (v, digits = 3) => (v == null || !Number.isFinite(v) ? '–' : v.toFixed(digits));

/** Formats a count and its noun. @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** Formats a duration in a suitable unit. @param {number | null | undefined} s */
export function seconds(s) {
  if (s == null || !Number.isFinite(s)) return '–';
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

/** Formats a day in the reader's time zone. @param {string} iso the server's time, UTC */
export const day = (iso) => new Date(iso).toLocaleDateString(undefined, { dateStyle: 'medium' });

/** Formats a time of the server in the reader's time zone. @param {string} iso */
export const moment = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** Formats a size in a suitable unit. @param {number | null | undefined} n */
export function bytes(n) {
  if (n == null) return '–';
  const unit = ['B', 'KB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (n >= 1000 && i < 4) {
    n /= 1000;
    i += 1;
  }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${unit[i]}`;
}
