/*! uPlot 1.6.32 is in this part: MIT license, Copyright (c) 2025 Leon Sorokin */
// How a job went, as charts. Each has a table that says the same.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { ticks, tickText } from "./lanes";
import { Card, Choice, Table, Text, useWidth } from "./parts";
import { here, type Route } from "./route";
import { ask } from "./session";
import "./shell"; // as in rest.ts
import { clean, clock, count, figure, num, when } from "./text";
import type { Job, Series } from "./types";

type Line = (number | null)[];

/** A Plot is lines over the same times. */
interface Plot { label: string; times: number[]; lines: { name: string; values: Line; unit: "%" | "/s" | "n" | "" }[]; band?: { low: Line; high: Line } }

const say = (v: number | null | undefined, unit: string) => (v == null ? "-" : unit === "%" ? v.toFixed(1) + "%" : unit === "/s" ? count(v) + "/s" : figure(v));
const short = (v: number) => (Math.abs(v) >= 10000 ? count(v) : String(Number(v.toPrecision(6))));

const inks = ["--accent", "--ok", "--warn", "--bad", "--violet", "--teal"];
const whole = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((e) => n * 10 ** e)).sort((a, b) => a - b);
const dashes = [[], [6, 3], [2, 3]];
const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** JobCharts shows what the host's log tells of a job. It is asked again while the job goes on. */
export function JobCharts({ job, route }: { job: Job; route: Route }) {
  const [got, set] = useState<{ id: string; series: Series | null; wrong: string }>({ id: "", series: null, wrong: "" });
  const at = useRef(0);
  const news = `${job.id} ${job.state} ${job.iterations.accepted} ${job.attempts.failed} ${job.attempts.reclaimed}`;
  useEffect(() => {
    const stop = new AbortController();
    const wait = setTimeout(async () => {
      at.current = Date.now();
      try {
        const r = await ask(`/v1/jobs/${encodeURIComponent(job.id)}/series?points=${Math.max(12, Math.min(120, Math.round(job.elapsed_seconds)))}`, { signal: stop.signal });
        const body = await r.json();
        if (!r.ok) throw new Error(body.detail ?? `refused (${r.status})`);
        set({ id: job.id, series: body, wrong: "" });
      } catch (e) {
        if (!stop.signal.aborted) set((g) => ({ ...g, id: job.id, wrong: String((e as Error).message ?? e) }));
      }
    }, Math.max(0, at.current + 5000 - Date.now()));
    return () => { clearTimeout(wait); stop.abort(); };
  }, [news]);
  const s = got.id === job.id ? got.series : null;
  if (!s) return <Card title="How it went" wide><p class={got.wrong ? "bad" : "none loading"} role={got.wrong ? "alert" : undefined}>{got.wrong ? <Text most={300}>{got.wrong}</Text> : "Loading\u2026"}</p></Card>;
  const from = when(s.from), times = s.iterations.map((_, i) => (from + (i + 1) * s.step_seconds * 1000) / 1000);
  const share = (values: number[]): Line => values.map((v, i) => (s.iterations[i] ? (100 * v) / s.iterations[i]! : null));
  const names = s.metrics.map((m) => m.name), metric = s.metrics.find((m) => m.name === route.query.get("metric")) ?? s.metrics[0];
  const list = <T,>(of: T[], name: (v: T) => string, values: (v: T) => Line, unit: "%" | "n") => of.slice(0, 12).map((v) => ({ name: clean(name(v), 60), values: values(v), unit }));
  return <>
    {got.wrong && <p class="wide bad" role="alert"><Text most={300}>{got.wrong}</Text></p>}
    {s.compacted && <p class="wide dim">Older events are no longer kept here: what they told may be missing in the charts.</p>}
    <Drawn title="Progress and rate" plot={{ label: "progress and rate", times, lines: [
      { name: "progress", values: s.iterations.map((n) => (100 * n) / Math.max(1, s.total)), unit: "%" },
      { name: "rate", values: s.rate_per_second, unit: "/s" }] }} />
    {metric && <Drawn title={`Mean of ${metric.name}`} more={names.length > 1 && <Choice label="metric" now={metric.name} of={names.slice(0, 6).map((n) => [n, here(route, { metric: n })])} />}
      plot={{ label: `mean of ${metric.name} with its 95 % interval`, times, lines: [{ name: "mean", values: metric.mean, unit: "" }], band: { low: metric.low, high: metric.high } }} />}
    {s.workers.length > 0 && <Drawn title="Share of each host over time" plot={{ label: "share of each host in what counts", times, lines: list(s.workers, (w) => w.node || "all others", (w) => share(w.iterations), "%") }} />}
    {s.failures.length > 0 && <Drawn title="Failures over time" plot={{ label: "attempts that came to nothing, by reason", times,
      lines: list(s.failures, (f) => (f.reclaimed ? "taken back: " : "") + (f.reason || "all others"), (f) => f.attempts, "n") }} />}
  </>;
}

function Drawn({ title, plot, more }: { title: string; plot: Plot; more?: any }) {
  const [ref, width] = useWidth(), box = useRef<HTMLDivElement>(null), under = useRef<HTMLParagraphElement>(null);
  const made = useRef<uPlot | null>(null), now = useRef(plot);
  now.current = plot;
  const data = [plot.times, ...plot.lines.map((l) => l.values), ...(plot.band ? [plot.band.low, plot.band.high] : [])] as uPlot.AlignedData;
  // Another look is another drawing; other values are not.
  const look = [width, colour("--card"), plot.band ? "band" : "", ...plot.lines.map((l) => l.name)].join("\n");
  useEffect(() => {
    if (!box.current) return;
    const u = new uPlot(options(plot, width), data, box.current);
    made.current = u;
    return () => { u.destroy(); made.current = null; };
  }, [look]);
  useEffect(() => { made.current?.setData(data); });
  const last = plot.times.length - 1;
  const tell = (i: number | null) => { if (under.current) under.current.textContent = i === null ? "\u00A0" : words(now.current, i); };
  const over = (e: PointerEvent) => {
    const r = made.current?.over.getBoundingClientRect();
    if (r) tell(Math.round(Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)) * last));
  };
  return <Card title={title} more={more}>
    <div ref={ref}><div ref={box} onPointerMove={over} onPointerLeave={() => tell(null)} role="img" aria-label={`${clean(plot.label, 100)}, ${clean(words(plot, last), 300)}`} /></div>
    <p class="legend">{plot.lines.map((l, i) => <span key={l.name}><svg width="24" height="8" aria-hidden="true"><line x1="0" x2="24" y1="4" y2="4" stroke-width="2.5" stroke={`var(${inks[i % inks.length]})`}
      stroke-dasharray={dashes[Math.floor(i / inks.length) % dashes.length]!.join(" ") || undefined} /></svg> <Text most={90}>{l.name}</Text></span>)}{plot.band && <span>shaded: 95 % interval</span>}</p>
    <p class="under num" ref={under} aria-hidden="true">{"\u00A0"}</p>
    <details><summary>As a table</summary>
      <Table label={plot.label} rows={plot.times.map((t, i) => ({ t, i })).reverse()} keyOf={(r) => String(r.i)} none="Nothing yet." columns={[
        { head: "until", cell: (r) => clock(r.t * 1000) },
        ...plot.lines.map((l) => ({ head: l.name, right: true, cell: (r: { i: number }) => say(l.values[r.i], l.unit) })),
        ...(plot.band ? [{ head: "95 % between", right: true, cell: (r: { i: number }) => (plot.band!.low[r.i] == null ? "-" : `${figure(plot.band!.low[r.i])} and ${figure(plot.band!.high[r.i])}`) }] : []),
      ]} /></details>
  </Card>;
}

function words(p: Plot, i: number): string {
  const t = p.times[i];
  if (t === undefined) return "";
  const band = p.band && num(p.band.low[i]) !== null ? `, between ${figure(p.band.low[i])} and ${figure(p.band.high[i])}` : "";
  return `${clock(t * 1000)}: ${p.lines.map((l) => `${l.name} ${say(l.values[i], l.unit)}`).join(", ")}${band}`;
}

function options(p: Plot, width: number): uPlot.Options {
  const line = colour("--line"), dim = colour("--dim"), span = ((p.times[p.times.length - 1] ?? 0) - (p.times[0] ?? 0)) * 1000;
  const units = [...new Set(p.lines.map((l) => l.unit))];
  const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
  const ink = (i: number) => colour(inks[i % inks.length]!);
  return {
    width, height: 200, legend: { show: false }, cursor: { show: false },
    scales: Object.fromEntries([["x", { time: true }], ...units.map((u) => [u || "y", u === "%" ? { range: [0, 100] } : u === "/s" ? { range: (_: uPlot, _low: number, high: number) => [0, high > 0 ? high * 1.05 : 1] } : {}])]),
    axes: [{ ...axis, size: 34, splits: (_u, _i, from, to) => ticks(from * 1000, to * 1000, Math.max(2, Math.floor(width / 110))).map((t) => t / 1000), values: (_, splits) => splits.map((t) => tickText(t * 1000, span)) },
      ...units.map((u, i) => ({ ...axis, scale: u || "y", side: (i ? 1 : 3) as uPlot.Axis.Side, size: (_: uPlot, v: string[] | null) => 20 + 7 * Math.max(6, ...(v ?? []).map((t) => t.length)), grid: { ...axis.grid, show: i === 0 },
        ...(u === "n" ? { incrs: whole } : {}), values: (_: uPlot, splits: number[]) => splits.map((v) => (u === "%" ? v + "%" : u === "/s" ? count(v) + "/s" : short(v))) }))],
    series: [{}, ...p.lines.map((l, i) => ({ label: l.name, scale: l.unit || "y", stroke: ink(i), width: 2, dash: dashes[Math.floor(i / inks.length) % dashes.length], points: { show: false } })),
      ...(p.band ? ["low", "high"].map((label) => ({ label, scale: "y", stroke: ink(0) + "66", width: 1, points: { show: false } })) : [])],
    bands: p.band ? [{ series: [3, 2], fill: ink(0) + "2b" }] : undefined,
  };
}
