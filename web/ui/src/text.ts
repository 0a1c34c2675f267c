// Texts of the page. Names, reasons and bodies come from other hosts and users:
// whatever they contain is shown as text, cut, with what cannot be seen made visible.

const hidden = /[\p{C}\u2028\u2029]/gu;

export function clean(text: unknown, most = 200): string {
  const s = typeof text === "string" ? text : text == null ? "" : String(text);
  const cut = s.length > most ? s.slice(0, most) + "\u2026" : s;
  return cut.replace(hidden, "\uFFFD");
}

export function lines(text: string, most = 20000): string {
  return text.split("\n").map((l) => clean(l, most)).join("\n").slice(0, most);
}

export function num(v: unknown): number | null {
  return typeof v === "number" && Number.isFinite(v) ? v : null;
}

/** An age or a length of time: 0.4s, 12s, 3m, 5h, 2d. */
export function age(seconds: number | null | undefined): string {
  const s = num(seconds);
  if (s === null) return "-";
  const a = Math.max(0, s);
  if (a < 1) return a.toFixed(1) + "s";
  if (a < 10) return a.toFixed(1) + "s";
  if (a < 120) return Math.round(a) + "s";
  if (a < 7200) return Math.round(a / 60) + "m";
  if (a < 172800) return Math.round(a / 3600) + "h";
  return Math.round(a / 86400) + "d";
}

export function millis(seconds: number | null | undefined): string {
  const s = num(seconds);
  return s === null ? "-" : s < 0.1 ? (s * 1000).toFixed(1) + "ms" : (s * 1000).toFixed(0) + "ms";
}

export function bytes(v: number | null | undefined): string {
  let n = num(v);
  if (n === null) return "-";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024) return (unit === "B" || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + " " + unit;
    n /= 1024;
  }
  return n.toFixed(1) + " TiB";
}

export function count(v: number | null | undefined): string {
  const n = num(v);
  if (n === null) return "-";
  if (Math.abs(n) < 10000) return Number.isInteger(n) ? String(n) : n.toPrecision(3);
  let a = n;
  for (const unit of ["k", "M", "G", "T"]) {
    a /= 1000;
    if (Math.abs(a) < 1000) return a.toPrecision(3) + unit;
  }
  return n.toExponential(2);
}

export function many(n: number, one: string): string {
  return `${n} ${one}${n === 1 ? "" : "s"}`;
}

/** A figure of a result. */
export function figure(v: number | null | undefined): string {
  const n = num(v);
  return n === null ? "-" : Number.isInteger(n) && Math.abs(n) < 1e9 ? String(n) : String(Number(n.toPrecision(6)));
}

/** The time of day, with the date if it is another day's. */
export function clock(ms: number, now = Date.now()): string {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return "-";
  const d = new Date(ms), two = (n: number) => String(n).padStart(2, "0");
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  if (d.toDateString() === new Date(now).toDateString()) return time;
  const day = `${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
  return d.getFullYear() === new Date(now).getFullYear() ? day : `${d.getFullYear()}-${day}`;
}

/** Milliseconds since 1970 of a hybrid clock: its upper 48 bits. */
export function hlcTime(hlc: number): number {
  return Math.floor(hlc / 65536);
}

export function when(text: string | null | undefined): number {
  return text ? Date.parse(text) : NaN;
}
