// What waits for something else, and what is in doubt.
import { useEffect, useState } from "preact/hooks";
import { before, Graph, type Vertex } from "../graph";
import { Card, Job as JobLink, State, Table, Text } from "../parts";
import { link } from "../route";
import { ask } from "../session";
import { get } from "../store";
import { clean, clock, when } from "../text";
import type { Job, Run } from "../types";

const placeOf = (r: Run) => (r.place ? `queued, number ${r.place}` : r.state);

export function StateOfRun({ run: r }: { run: Run }) {
  return r.state === "queued" ? <State of="pending" word={placeOf(r)} /> : <State of={r.state} />;
}

/** Group are the runs that share places with one that waits for its own. */
export function Group({ of: r }: { of: Run }) {
  const line = get.runs().filter((o) => o.group === r.group && o.owner === r.owner && !o.finished_at).sort((a, b) => (a.place ?? 0) - (b.place ?? 0) || (a.submitted_at < b.submitted_at ? -1 : 1));
  return <Card title="It waits for a place" wide>
    <p>Number {r.place} of those that wait in <Text most={80}>{r.group}</Text>: it begins when runs before it have ended.</p>
    <Table label="runs that share places with it" rows={line.slice(0, 120)} keyOf={(o) => o.id} none="None is known." current={(o) => o.id === r.id} columns={[
      { head: "place", cell: (o) => o.place || "has one" },
      { head: "run", cell: (o) => <a href={link("workflows", [o.id])}><Text most={9}>{o.id}</Text></a> },
      { head: "workflow", low: true, cell: (o) => <Text most={40}>{o.name || "-"}</Text> },
      { head: "state", cell: (o) => <State of={o.place ? "pending" : o.state} word={o.state} /> },
      { head: "submitted", low: true, cell: (o) => clock(when(o.submitted_at)) },
    ]} />
  </Card>;
}

interface Doubt { step: string; index: number; job: string; chunk?: number; worker?: string }
const differ = "hosts computed different results";

/** Disputed are the chunks of which hosts have different results, and what two holders ended in two ways. */
export function Disputed({ run }: { run: Run }) {
  const list: Doubt[] = (run.steps ?? []).flatMap((s) => (s.instances ?? []).filter((i) => i.disputed).map((i) => ({ step: s.name, index: i.index, job: i.job ?? "" }))).slice(0, 16);
  const [chunks, set] = useState<Map<string, Doubt[]>>(new Map()), key = list.map((d) => d.job).join();
  useEffect(() => {
    const stop = new AbortController();
    for (const d of list) {
      if (d.job) ask("/v1/jobs/" + encodeURIComponent(d.job), { signal: stop.signal }).then((r) => r.json()).then((j: Job) =>
        set((was) => new Map(was).set(d.job, (j.anomalies ?? []).filter((a) => a.reason.startsWith(differ)).map((a) => ({ ...d, chunk: a.chunk, worker: a.worker })))), () => {}); // without them the instances are shown
    }
    return () => stop.abort();
  }, [key]);
  if (!list.length) return null;
  return <Card title="In doubt" wide>
    <p class="warn">Results differ, or two holders ended a step in two ways: the first counts.</p>
    <Table label="disputed chunks" rows={list.flatMap((d) => (chunks.get(d.job)?.length ? chunks.get(d.job)! : [d]))} keyOf={(d) => `${d.step} ${d.index} ${d.chunk}`} none="" columns={[
      { head: "step", cell: (d) => <Text most={64}>{`${d.step}[${d.index}]`}</Text> },
      { head: "chunk", right: true, cell: (d) => d.chunk ?? "-" },
      { head: "counts", cell: (d) => (d.worker ? <>that of <Text most={40}>{d.worker}</Text></> : chunks.has(d.job) ? "the first end" : "\u2026") },
      { head: "job", low: true, cell: (d) => (d.job ? <JobLink id={d.job} name={clean(d.job, 9)} /> : "-") },
    ]} />
  </Card>;
}

const most = 40;

/** Waiting are jobs that begin when others have ended. */
export function Waiting() {
  const all = get.jobs(), waits = all.filter((j) => j.state === "queued" && j.spec?.after?.length).reverse();
  if (!waits.length) return null;
  const known = new Map(all.map((j) => [j.id, j])), shown = new Map<string, Vertex>();
  const vertex = (id: string): Vertex => {
    const j = known.get(id), state = j?.state ?? "unknown";
    return { name: id, title: j?.name || clean(id, 9), state: state === "queued" ? "blocked" : state, word: state, reason: "", total: 0, counts: {}, instances: [] };
  };
  for (const j of waits.slice(0, most)) {
    const v = shown.get(j.id) ?? vertex(j.id), on = (how: string) => j.spec!.after!.map((a) => a.split(":")).filter(([, h = ""]) => h === how).map(([id]) => id!);
    shown.set(j.id, { ...v, after: on(""), after_done: on("done"), after_failed: on("failed") });
    for (const a of j.spec!.after!) { const id = a.split(":")[0]!; if (!shown.has(id)) shown.set(id, vertex(id)); }
  }
  const list = [...shown.values()], nameOf = (id: string) => shown.get(id)?.title ?? clean(id, 9);
  return <Card title="Jobs that wait for others" wide>
    <Graph steps={list} chosen="" to={(v) => link("jobs", [v.name])} of="job" label="graph of jobs that wait" />
    <Table label="jobs that wait for others" rows={list} keyOf={(v) => v.name} none="" columns={[
      { head: "job", cell: (v) => <JobLink id={v.name} name={v.title} /> },
      { head: "state", cell: (v) => <State of={v.state === "blocked" ? "pending" : v.state} word={v.word} /> },
      { head: "after", cell: (v) => <Text most={200}>{before(v, nameOf).join(", ") || "-"}</Text> },
    ]} />
    {waits.length > most && <p class="dim">The first {most} of {waits.length}.</p>}
  </Card>;
}
