// Who held the lease when.
import { useWidth } from "./parts";
import { link } from "./route";
import { get } from "./store";
import { age, clean, clock, when } from "./text";
import type { Term } from "./types";

/** Spans of time without a holder: from the end that a holder told to the next term. */
export function gaps(terms: Term[]): { from: number; to: number; term: number }[] {
  const up = [...terms].sort((a, b) => a.term - b.term), out = [];
  for (let i = 1; i < up.length; i++) {
    const from = when(up[i - 1]!.ended_at), to = when(up[i]!.started_at);
    if (to > from) out.push({ from, to, term: up[i]!.term });
  }
  return out;
}

/** Lanes show who held the lease when: a lane for each host, a bar for each term. */
export function Lanes({ hours, small }: { hours: number; small?: boolean }) {
  const [ref, width] = useWidth();
  const terms = get.terms(), now = Date.now();
  const first = Math.min(now - 60000, ...terms.map((t) => when(t.started_at)).filter(Number.isFinite));
  const from = hours > 0 ? now - hours * 3600e3 : first;
  const shown = terms.filter((t) => (when(t.ended_at) || now) >= from);
  const names = [...new Set(shown.map((t) => t.holder))].sort();
  const left = Math.min(140, Math.max(40, ...names.map((n) => clean(n, 18).length * 7.5 + 12)));
  const lane = small ? 24 : 34, axis = 22, height = Math.max(1, names.length) * lane + axis;
  const x = (t: number) => left + ((Math.min(now, Math.max(from, t)) - from) / (now - from)) * (width - left - 6);
  const marks = ticks(from, now, Math.max(2, Math.floor((width - left) / 90)));
  const y = (n: string) => names.indexOf(n) * lane;
  if (terms.length === 0) return <p class="none">No term is in the log yet.</p>;
  return <div ref={ref} class="lanes">
    <svg width={width} height={height} role="group" aria-label={`who held the lease, from ${clock(from)} to ${clock(now)}`}>
      {marks.map((t) => <g key={t}><line x1={x(t)} x2={x(t)} y1={0} y2={height - axis} class="grid-line" />
        <text x={x(t)} y={height - 6} class="axis" text-anchor={x(t) > width - 40 ? "end" : "middle"}>{tickText(t, now - from)}</text></g>)}
      {gaps(shown).map((g) => <rect key={"g" + g.term} x={x(g.from)} width={Math.max(2, x(g.to) - x(g.from))} y={0} height={height - axis} class="gap">
        <title>{`no holder for ${age((g.to - g.from) / 1000)}, until term ${g.term}`}</title></rect>)}
      {names.map((n) => <g key={n}>
        <text x={left - 8} y={y(n) + lane / 2 + 4} text-anchor="end" class="lane-name">{clean(n, 18)}<title>{clean(n)}</title></text>
        <line x1={left} x2={width - 6} y1={y(n) + lane} y2={y(n) + lane} class="grid-line" /></g>)}
      {shown.map((t) => {
        const a = x(when(t.started_at)), b = x(when(t.ended_at) || now), wide = Math.max(3, b - a - 1);
        const label = `term ${t.term}, ${clean(t.holder, 40)}, from ${clock(when(t.started_at))}${t.ended_at ? ` to ${clock(when(t.ended_at))}, ${clean(t.cause) || "ended"}` : ", now"}`;
        return <a key={t.term} href={link("events", [], { q: `term:${t.term}` })} aria-label={label} class={"bar" + (t.ended_at ? "" : " now") + (t.cause === "expired" ? " expired" : "")}>
          <title>{label}</title>
          <rect x={a} y={y(t.holder) + 5} width={wide} height={lane - 10} rx={3} />
          {t.cause === "expired" && <line x1={a + wide} x2={a + wide} y1={y(t.holder) + 2} y2={y(t.holder) + lane - 2} class="cut" />}
          {wide > 30 && <text x={a + 6} y={y(t.holder) + lane / 2 + 4}>{t.term}</text>}</a>;
      })}
    </svg></div>;
}

function ticks(from: number, to: number, most: number): number[] {
  const steps = [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);
  const step = steps.find((s) => (to - from) / s <= most) ?? (to - from) / most, out = [];
  const zone = new Date(to).getTimezoneOffset() * 60e3;
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) out.push(t);
  return out;
}

function tickText(t: number, span: number): string {
  const text = clock(t, t);
  if (span > 3 * 86400e3) return clock(t, 0).slice(-14, -9);
  return span > 600e3 ? text.slice(0, 5) : text;
}
