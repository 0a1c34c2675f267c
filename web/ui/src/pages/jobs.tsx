import { useEffect, useMemo, useState } from "preact/hooks";
import { Act, actions } from "../actions";
import { later } from "../later";
import { Card, Facts, Host, Job as JobLink, Progress, State, Table, Text, toneOf, useWidth } from "../parts";
import { link, type Route } from "../route";
import { fetchEvents, get, looksBack } from "../store";
import { age, clock, count, figure, hlcTime, many, when } from "../text";
import type { Entry, Job, Waiting } from "../types";

const JobCharts = later(() => import("../charts").then((m) => m.JobCharts), true);

const chunkStates = ["accepted", "assigned", "pending", "failed", "parked", "skipped", "unknown"];

export function JobsPage({ route }: { route: Route }) {
  if (route.rest[0]) return <One id={route.rest[0]} route={route} />;
  const jobs = get.jobs();
  return <div class="grid"><Card title="Jobs" wide>
    <Table label="jobs" rows={jobs.slice(0, 500)} keyOf={(j) => j.id} none="No job was submitted. `skein job run` does." columns={[
      { head: "job", cell: (j) => <JobLink id={j.id} name={j.name} /> },
      { head: "state", cell: (j) => <><State of={j.state} />{j.waits && <span class="dim said"><Text most={60}>{j.waits}</Text></span>}</> },
      { head: "owner", low: true, cell: (j) => <Text most={24}>{j.owner}</Text> },
      { head: "done", cell: (j) => <Progress part={j.iterations.accepted} whole={j.iterations.total} label={"job " + j.id} /> },
      { head: "chunks", right: true, low: true, cell: (j) => `${j.chunks.accepted}/${j.chunks.total}` },
      { head: "failed", live: true, right: true, low: true, cell: (j) => (j.chunks.failed + j.attempts.failed ? <span class="bad">{j.attempts.failed}</span> : "0") },
      { head: "rate", live: true, right: true, low: true, cell: (j) => (j.rate_per_second == null ? "-" : count(j.rate_per_second) + "/s") },
      { head: "left", live: true, right: true, cell: (j) => (j.finished_at ? "-" : age(j.eta_seconds)) },
      { head: "submitted", low: true, cell: (j) => clock(when(j.submitted_at)) },
    ]} />
    {jobs.length > 500 && <p class="dim">The newest 500 of {jobs.length}.</p>}
  </Card></div>;
}

function One({ id, route }: { id: string; route: Route }) {
  const j = get.job(id) ?? get.jobs().find((x) => x.id === id || x.name === id);
  if (!j) return <div class="grid"><Card title="Job" wide more={<a href={link("jobs")}>all jobs</a>}><p class="none">No job has this id or name.</p></Card></div>;
  const c = j.chunks, givenUp = c.failed + c.parked, back = looksBack();
  return <div class="grid">
    <Card title={`Job ${j.name || j.id}`} wide more={<span class="buttons">
      {!j.finished_at && <Act of={actions.stop(j.id, j.name, j.owner)} />}
      {!j.finished_at && givenUp > 0 && <Act of={actions.retry(j.id, j.name, j.owner)} />}
      <a href={link("jobs")}>all jobs</a></span>}>
      <p class="sentence"><State of={j.state} />{j.reason && <>: <Text>{j.reason}</Text></>} <Progress part={j.iterations.accepted} whole={j.iterations.total} label="progress" /></p>
      {j.waits && <p class="warn">It waits: <Text most={500}>{j.waits}</Text></p>}
      {j.waiting?.reasons.filter((r) => r.workers > 0).map((r) => <p class="dim" key={r.reason}><Text most={200}>{reasonText(r)}</Text></p>)}
      {j.waiting && <p class="dim"><Text most={300}>{j.waiting.hint}</Text></p>}
      {j.warning && <p class="warn"><Text most={500}>{j.warning}</Text></p>}
      <Facts of={[
        ["id", <code><Text>{j.id}</Text></code>], ["owner", <Text>{j.owner}</Text>], ["submitted", clock(when(j.submitted_at))],
        [j.finished_at ? "took" : "runs for", age(j.elapsed_seconds)],
        ["iterations", `${count(j.iterations.accepted)} of ${count(j.iterations.total)}`],
        ...(back ? [["chunks", ["accepted", "assigned", "pending", "failed"].map((n) => `${c[n as "failed"]} ${n}`).join(", ")]] : [
          ["rate", j.rate_per_second == null ? "-" : count(j.rate_per_second) + "/s"], ["left", j.finished_at ? "-" : age(j.eta_seconds)],
          ["attempts", `${count(j.attempts.assigned)}, ${count(j.attempts.failed)} failed, ${count(j.attempts.reclaimed)} taken back`],
          ["scheduled by", <Host node={j.holder} route={route} />],
        ] as [string, any][]) as [string, any][],
        ["events", <a href={link("events", [], { q: "job:" + j.id })}>of this job</a>],
      ]} />
    </Card>
    {!back && <Card title="Chunks" wide><ChunkMap job={j} /></Card>}
    {!back && !j.finished_at && j.map?.step === 1 && <Out key={j.id} job={j} route={route} />}
    {!back && <JobCharts job={j} route={route} />}
    {j.aggregates && <Card title="Results" wide>
      <Table label="results" rows={Object.entries(j.aggregates).sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, 200)} keyOf={([n]) => n} none="No chunk counts yet." columns={[
        { head: "metric", cell: ([n]) => <span class="said"><Text most={60}>{n}</Text></span> },
        { head: "mean", right: true, cell: ([, s]) => figure(s.mean) },
        { head: "95 % between", right: true, low: true, cell: ([, s]) => (s.ci95_low == null ? "-" : `${figure(s.ci95_low)} and ${figure(s.ci95_high)}`) },
        { head: "error", right: true, cell: ([, s]) => (s.relative_error == null ? "-" : (s.relative_error * 100).toPrecision(2) + " %") },
        { head: "min", right: true, low: true, cell: ([, s]) => figure(s.min) }, { head: "max", right: true, low: true, cell: ([, s]) => figure(s.max) },
        { head: "p50", right: true, low: true, cell: ([, s]) => figure(s.p50) }, { head: "p99", right: true, low: true, cell: ([, s]) => figure(s.p99) },
        { head: "n", right: true, low: true, cell: ([, s]) => count(s.n) },
      ]} /></Card>}
    {j.workers && <Card title="Share of each host">
      <Table label="share of each host" rows={j.workers} keyOf={(w) => w.node} none="No host has had a chunk." columns={[
        { head: "host", cell: (w) => <Host node={w.node} route={route} /> },
        { head: "share", cell: (w) => <Progress part={w.accepted} whole={Math.max(1, c.accepted)} label={"share of " + w.node} /> },
        { head: "count", right: true, cell: (w) => w.accepted }, { head: "runs", right: true, cell: (w) => w.assigned },
      ]} /></Card>}
    {j.failures && <Card title="Failures">
      <Table label="failures by reason" rows={reasons(j)} keyOf={(f) => f.reason} none={"No attempt failed" + (j.attempts.reclaimed ? `; ${j.attempts.reclaimed} taken back.` : ".")} columns={[
        { head: "reason", cell: (f) => <span class="said"><Text most={200}>{f.reason}</Text></span> }, { head: "times", right: true, cell: (f) => f.times },
        { head: "hosts", cell: (f) => <Text>{f.hosts.join(", ")}</Text> }, { head: "last", right: true, low: true, cell: (f) => clock(f.last) },
      ]} />
      {j.failures.length > 0 && <p class="dim">Of the last {many(j.failures.length, "failure")}.</p>}</Card>}
  </div>;
}

// reasonText says of whom a reason is: "zone: n1, n2 and 3 more: not in zone mars".
function reasonText(r: Waiting["reasons"][number]) {
  const more = r.workers - r.examples.length;
  return `${r.reason}: ${r.examples.join(", ")}${more > 0 ? ` and ${more} more` : ""}: ${r.text}`;
}

function reasons(j: Job) {
  const by = new Map<string, { reason: string; times: number; hosts: string[]; last: number }>();
  for (const f of j.failures ?? []) {
    const r = by.get(f.reason) ?? { reason: f.reason, times: 0, hosts: [], last: 0 };
    r.times++;
    r.last = Math.max(r.last, when(f.at));
    if (!r.hosts.includes(f.worker)) r.hosts.push(f.worker);
    by.set(f.reason, r);
  }
  return [...by.values()].sort((a, b) => b.times - a.times);
}

const mostRead = 1000;

/** Out are the chunks that hosts have, the longest first: what is slow is at the top. */
function Out({ job, route }: { job: Job; route: Route }) {
  const [older, set] = useState<Entry[]>([]), stream = get.events();
  useEffect(() => {
    const stop = new AbortController();
    fetchEvents(new URLSearchParams({ entity: "job:" + job.id, kind: "chunks_assigned", tail: String(mostRead) }), stop.signal).then(set, () => {}); // without them fewer are known
    return () => stop.abort();
  }, []);
  const given = useMemo(() => {
    const at = new Map<number, { worker: string; since: number }>();
    for (const e of older.concat(stream)) {
      const b = e.kind === "chunks_assigned" ? e.body as { job?: unknown; assignments?: unknown } | null : null;
      if (b?.job === job.id && Array.isArray(b.assignments)) for (const a of b.assignments) if (a) at.set(a.chunk, { worker: a.worker, since: hlcTime(e.hlc) });
    }
    return at;
  }, [older, stream]);
  // What was read has no event of a chunk: it was given out long before, or only now.
  const unknown = { worker: "", since: older.length < mostRead ? Infinity : 0 }, out: { chunk: number; worker: string; since: number }[] = [];
  let n = 0;
  for (const r of job.map!.runs) {
    if (r.state === "assigned") for (let i = n; i < n + r.count && out.length < 5000; i++) out.push({ chunk: i, ...given.get(i) ?? unknown });
    n += r.count;
  }
  out.sort((a, b) => (a.since < b.since ? -1 : 1));
  return <Card title="Chunks that hosts have, the longest first" wide>
    <Table label="chunks that hosts have" rows={out.slice(0, 8)} keyOf={(o) => String(o.chunk)} none="No host has one." columns={[
      { head: "chunk", cell: (o) => o.chunk },
      { head: "host", cell: (o) => (o.worker ? <Host node={o.worker} route={route} /> : "-") },
      { head: "for", right: true, cell: (o) => (o.since ? age((Date.now() - Math.min(Date.now(), o.since)) / 1000) : "long") },
    ]} />
    {out.length > 8 && <p class="dim">And {out.length - 8} more.</p>}
  </Card>;
}

/** ChunkMap draws a cell for each chunk, or for several where there are many. */
function ChunkMap({ job }: { job: Job }) {
  const [ref, width] = useWidth();
  const m = job.map, c = job.chunks;
  const counts = chunkStates.map((s) => [s, m ? m.runs.filter((r) => r.state === s).reduce((n, r) => n + r.count, 0) : 0] as const).filter(([, n]) => n > 0);
  const total = m?.chunks ?? c.total;
  const most = Math.floor(width / 7) * 24, each = Math.max(1, Math.ceil(total / most)), cells = Math.ceil(total / each);
  const size = Math.max(5, Math.min(22, Math.floor(Math.sqrt((width * 150) / Math.max(1, cells))))), columns = Math.max(1, Math.floor(width / size));
  const paths = new Map<string, string>();
  if (m) {
    const worst = ["failed", "parked", "assigned", "pending", "skipped", "unknown", "accepted"];
    const state: string[] = [];
    let at = 0;
    for (const r of m.runs) {
      const last = Math.min(total, at + r.count);
      for (let i = Math.floor(at / each); i < Math.ceil(last / each); i++) {
        const was = state[i];
        if (!was || worst.indexOf(r.state) < worst.indexOf(was)) state[i] = r.state;
      }
      at = last;
    }
    state.forEach((s, i) => {
      const x = (i % columns) * size, y = Math.floor(i / columns) * size, w = size - 1;
      paths.set(s, (paths.get(s) ?? "") + `M${x} ${y}h${w}v${w}h${-w}z`);
    });
  }
  const text = counts.map(([s, n]) => `${n} ${s}`).join(", ");
  return <div ref={ref}>
    {m ? <svg width={width} height={Math.ceil(cells / columns) * size} role="img" aria-label={`chunks in their order: ${text}`} class="chunks">
      {[...paths].map(([s, d]) => <path key={s} d={d} class={"chunk " + (chunkStates.includes(s) ? s : "unknown")} />)}</svg>
      : <p class="none">The map is on its way.</p>}
    <p class="legend">{counts.map(([s, n]) => <span key={s}><span class={`key chunk-key ${s} ${toneOf(s)}`} aria-hidden="true" /> {n} {s}</span>)}
      {each * (m?.step ?? 1) > 1 && <span class="dim">a cell is {each * (m?.step ?? 1)} chunks, in the state that most needs a look</span>}</p>
  </div>;
}
