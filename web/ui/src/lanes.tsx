// Who held the lease when.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { useWidth } from "./parts";
import { link } from "./route";
import { get, now as moment } from "./store";
import { age, clean, clock, when } from "./text";
import type { Term } from "./types";

export interface Span { from: number; to: number; term: number }

const rising = (terms: Term[]) => [...terms].sort((a, b) => a.term - b.term);
/** until when the holder of a term is known to have held it */
const known = (t: Term, now: number) => when(t.last_evidence_at) || (t.cause ? when(t.ended_at) || when(t.started_at) : now);

/** Spans of time in which nobody is known to have held the lease. */
export function gaps(terms: Term[], now: number): Span[] {
  const out = terms.filter((t) => (t.gap_seconds ?? 0) > 0).map((t) => ({ from: when(t.started_at) - t.gap_seconds! * 1000, to: when(t.started_at), term: t.term }));
  const last = rising(terms).pop();
  if (last && last.cause && !last.ended_at) out.push({ from: known(last, now), to: now, term: last.term + 1 });
  return out;
}

/** Spans of time in which two held it, each on its side of a cut. */
export function overlaps(terms: Term[], now: number): Span[] {
  const out: Span[] = [];
  let end = 0;
  for (const t of rising(terms)) {
    const from = when(t.started_at), to = known(t, now);
    if (Math.min(end, to) > from) out.push({ from, to: Math.min(end, to), term: t.term });
    end = Math.max(end, to);
  }
  return out;
}

/** Lanes show who held the lease when: a lane for each host, a bar for each term. */
export function Lanes({ hours, small, chosen, choose }: { hours: number; small?: boolean; chosen?: [number, number] | null; choose?: (from: number, to: number) => void }) {
  const [ref, width] = useWidth();
  const drag = useRef<[number, number] | null>(null), drawn = useRef(false), [, draw] = useState({});
  const terms = get.terms(), now = moment();
  const first = Math.min(now - 60000, ...terms.map((t) => when(t.started_at)).filter(Number.isFinite));
  const from = hours > 0 ? Math.max(first, now - hours * 3600e3) : first;
  const shown = terms.filter((t) => (when(t.ended_at) || now) >= from);
  const names = [...new Set(shown.map((t) => t.holder))].sort();
  const most = width < 480 ? 12 : 20, left = Math.max(40, ...names.map((n) => clean(n, most).length * 8.5 + 12));
  const lane = small ? 24 : 34, axis = 22, height = Math.max(1, names.length) * lane + axis;
  const x = (t: number) => left + ((Math.min(now, Math.max(from, t)) - from) / (now - from)) * (width - left - 6);
  const marks = ticks(from, now, Math.max(2, Math.floor((width - left) / 90)));
  const y = (n: string) => names.indexOf(n) * lane;
  if (terms.length === 0) return <p class="none">No term is in the log yet.</p>;
  const time = (e: JSX.TargetedPointerEvent<SVGSVGElement>) => {
    const at = (e.clientX - e.currentTarget.getBoundingClientRect().left - left) / (width - left - 6);
    return from + Math.min(1, Math.max(0, at)) * (now - from);
  };
  const put = (to: [number, number] | null) => { drag.current = to; draw({}); };
  const brush = choose && {
    onPointerDown: (e: JSX.TargetedPointerEvent<SVGSVGElement>) => { if (e.button === 0) { drawn.current = false; put([time(e), time(e)]); } },
    onPointerMove: (e: JSX.TargetedPointerEvent<SVGSVGElement>) => {
      const d = drag.current, to = time(e);
      if (!d || !drawn.current && Math.abs(x(to) - x(d[0])) < 6) return;
      drawn.current = true;
      put([d[0], to]);
    },
    onPointerUp: () => { const d = drag.current; if (d && drawn.current) choose(Math.min(...d), Math.max(...d)); put(null); },
    onPointerLeave: () => put(null),
    onDragStart: (e: Event) => e.preventDefault(),
    onClickCapture: (e: Event) => { if (drawn.current) { e.preventDefault(); e.stopPropagation(); } },
  };
  const d = drag.current, marked = d && drawn.current ? [Math.min(...d), Math.max(...d)] as const : chosen;
  return <div ref={ref} class="lanes">
    <svg width={width} height={height} role="group" class={choose && "brush"} {...brush} aria-label={`who held the lease, from ${clock(from)} to ${clock(now)}`}>
      {marks.map((t) => <g key={t}><line x1={x(t)} x2={x(t)} y1={0} y2={height - axis} class="grid-line" />
        <text x={x(t)} y={height - 6} class="axis" text-anchor={x(t) > width - 40 ? "end" : "middle"}>{tickText(t, now - from)}</text></g>)}
      {gaps(terms, now).filter((g) => g.to > from).map((g) => <rect key={"g" + g.term} x={x(g.from)} width={Math.max(g.to - g.from < 1000 ? 0.5 : 2, x(g.to) - x(g.from))} y={0} height={height - axis} class="gap">
        <title>{`nobody is known to have held it for ${span(g)}, until term ${g.term}`}</title></rect>)}
      {overlaps(terms, now).filter((g) => g.to > from).map((g) => <rect key={"o" + g.term} x={x(g.from)} width={Math.max(2, x(g.to) - x(g.from))} y={0} height={height - axis} class="overlap">
        <title>{`two held it for ${span(g)}, term ${g.term} and one before`}</title></rect>)}
      {marked && <rect x={x(marked[0])} width={Math.max(1, x(marked[1]) - x(marked[0]))} y={0} height={height - axis} class="brushed" />}
      {names.map((n) => <g key={n}>
        <text x={left - 8} y={y(n) + lane / 2 + 4} text-anchor="end" class="lane-name">{clean(n, most)}<title>{clean(n)}</title></text>
        <line x1={left} x2={width - 6} y1={y(n) + lane} y2={y(n) + lane} class="grid-line" /></g>)}
      {shown.map((t) => {
        const a = x(when(t.started_at)), b = x(when(t.ended_at) || now), sure = x(known(t, now)), wide = Math.max(3, sure - a - 1);
        const label = `term ${t.term}, ${clean(t.holder, 40)}, from ${clock(when(t.started_at))}${t.ended_at ? ` to ${clock(when(t.ended_at))}, ${clean(t.cause) || "ended"}` : ", now"}`;
        return <a key={t.term} href={link("events", [], { q: `term:${t.term}` })} aria-label={label} class={"bar" + (t.ended_at ? "" : " now") + (t.cause === "expired" ? " expired" : "")}>
          <title>{label}</title>
          {b - sure > 2 && <rect x={sure} y={y(t.holder) + 8} width={b - sure} height={lane - 16} class="unsure" />}
          <rect x={a} y={y(t.holder) + 5} width={wide} height={lane - 10} rx={3} />
          {t.cause === "expired" && <line x1={a + wide} x2={a + wide} y1={y(t.holder) + 2} y2={y(t.holder) + lane - 2} class="cut" />}
          {wide > 30 && <text x={a + 6} y={y(t.holder) + lane / 2 + 4}>{t.term}</text>}</a>;
      })}
    </svg></div>;
}

const span = (s: Span) => (s.to - s.from < 1000 ? Math.round(s.to - s.from) + "ms" : age((s.to - s.from) / 1000));

/** ticks are moments that are easy to read, at most so many. */
export function ticks(from: number, to: number, most: number): number[] {
  const steps = [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);
  const step = steps.find((s) => (to - from) / s <= most) ?? (to - from) / most, out = [];
  const zone = new Date(to).getTimezoneOffset() * 60e3;
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) out.push(t);
  return out;
}

export function tickText(t: number, span: number): string {
  const text = clock(t, t);
  if (span > 3 * 86400e3) return clock(t, 0).slice(-14, -9);
  return span > 600e3 ? text.slice(0, 5) : text;
}
