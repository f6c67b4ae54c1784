// Numbers with units, times as people say them.

const whole = new Intl.NumberFormat("en");
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export const count = (n, noun, plural = `${noun}s`) => `${whole.format(n)} ${n === 1 ? noun : plural}`;
export const number = (n) => whole.format(n);
export const percent = (share, digits = 0) => `${(share * 100).toFixed(digits)} %`;
/** A share of others, never rounded up to all of them: "97 %", "more than 99 %". */
export const most = (share) => (share >= 0.99 ? "more than 99 %" : `${Math.floor(share * 100 + 1e-6)} %`);
export const score = (value) => `${value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}`;

/**
 * How much of what is planned is done, and by whom where others help: "30 of 120", "72 answers (60 planned)",
 * "3 by you · 84 of 560 by all".
 */
export function planned(done, wanted, noun, mine = done) {
  const more = done > wanted;
  const plan = more ? "" : ` of ${number(wanted)}`;
  const over = more && wanted ? ` (${number(wanted)} planned)` : "";
  if (mine !== done) return `${number(mine)} by you · ${number(done)}${plan} by all${over}`;
  return more || !wanted ? `${count(done, noun)}${over}` : `${number(done)}${plan}`;
}

/** "3 minutes ago"; the time is in seconds since 1970. */
export function ago(time, now = Date.now() / 1000) {
  const seconds = time - now;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** "24 Nov 2026"; the time is in seconds since 1970. */
export const date = (time) => day.format(new Date(time * 1000));

/** How long something takes, roughly: "~6 min". */
export function about(seconds) {
  if (seconds < 60) return "< 1 min";
  if (seconds < 5400) return `~${Math.round(seconds / 60)} min`;
  return `~${Math.round(seconds / 3600)} h`;
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : 0;
};
