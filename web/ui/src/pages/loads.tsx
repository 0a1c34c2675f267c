// Load tests: the list, and one as it goes. No stream tells of them: the page asks while it
// is open, and comes in a part of its own.
import { useEffect, useRef, useState } from "preact/hooks";
import { Act, type Action, field, quoted, typable } from "../actions";
import { Card, Facts, Progress, State, Table, Text, Untold } from "../parts";
import { link, type Route } from "../route";
import { ask } from "../session";
import "../shell"; // as in rest.ts
import { looksBack } from "../store";
import { age, clean, clock, count, millis, when } from "../text";

interface Test { id: string; name: string; owner: string; state: string; submitted_at: string; hosts: { host: string; share: number; lost?: string }[]; stop_reason?: string; verdict?: string; why?: string }
interface Times { p50: number; p95: number; p99: number; max: number }
interface Step { name: string; requests: number; failed: number; dropped?: number; classes?: Record<string, number>; checks: { passed: number; failed: number }; latency: Times }
interface Live {
  state: string; doing?: string; next: string; again?: boolean; at: number; of: number; seconds: number; warm?: boolean; steps: Step[]; latency: Times; users: number; queue: number; planned?: number;
  hosts: { host: string; stage: string; at: number; requests: number; cpu: number; clock: number; share: number; lost?: string }[]; thresholds?: { text: string; ok: boolean; value: number; unit?: string; samples: boolean }[];
}
/** Sum is what was told so far; of the last answer rates and latencies. */
interface Sum { last: Live; steps: Map<string, Step>; p99: number[] }

const share = (part: number, whole: number) => (whole ? ((100 * part) / whole).toFixed(part && part / whole < 0.01 ? 2 : 1) + "%" : "-");
const word = (t: Test) => t.verdict || (t.state === "started" ? "running" : t.state);
const good: Record<string, string> = { passed: "completed", failed: "failed", aborted: "failed", suspect: "suspect", incomplete: "partial", stopped: "cancelled", queued: "pending" };
const value = (t: { value: number; unit?: string; samples: boolean }) => (!t.samples ? "no samples" : t.unit === "s" ? millis(t.value) : t.unit === "share" ? share(t.value, 1) : count(t.value) + (t.unit ?? ""));

/** useAsked asks again and again while it is shown; next is the path of the next question. */
function useAsked<T>(next: () => string, every: number, heard: (body: T) => boolean): string {
  const [wrong, set] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      let more = true, wait = every;
      try {
        const r = await ask(next(), { signal: stop.signal }), body = await r.json();
        if (!r.ok) throw new Error(body.detail ?? `refused (${r.status})`);
        set("");
        more = heard(body);
      } catch (e) {
        if (stop.signal.aborted) return;
        set(String((e as Error).message ?? e));
        wait = 3000;
      }
      if (more) timer = window.setTimeout(read, wait);
    };
    void read();
    return () => { stop.abort(); clearTimeout(timer); };
  }, []);
  return wrong;
}

const Wrong = ({ text }: { text: string }) => (text ? <p class="bad" role="alert"><Text most={300}>{text}</Text></p> : null);

const stopLoad = (id: string, name: string, owner: string): Action => ({
  title: "Stop load test", owner, path: `/v1/load/${encodeURIComponent(id)}/stop`, body: { reason: "asked in the page" }, name: typable(name, id), danger: true,
  consequence: "No request begins any more. What was counted is its result.", command: `skein load stop ${quoted(id)}`,
  audit: (e) => e.kind === "load_run" && field(e, "run") === id && !!field(e, "stop"),
});

export function LoadsPage({ route }: { route: Route }) {
  if (looksBack()) return <Untold title="Load tests" />;
  return route.rest[0] ? <One key={route.rest[0]} id={route.rest[0]} /> : <List />;
}

function List() {
  const [runs, set] = useState<Test[] | null>(null);
  const wrong = useAsked<{ runs: Test[] }>(() => "/v1/load", 3000, (b) => { set(b.runs); return true; });
  return <div class="grid"><Card title="Load tests" wide><Wrong text={wrong} />
    {runs && <Table label="load tests" rows={runs.slice(0, 200)} keyOf={(r) => r.id} none="There was no load test. `skein load run` begins one." columns={[
      { head: "test", cell: (r) => <a href={link("load", [r.id])}><Text most={40}>{r.name || r.id}</Text></a> },
      { head: "state", cell: (r) => <><State of={good[word(r)] ?? word(r)} word={word(r)} />{r.why && <span class="dim said"><Text most={120}>{r.why}</Text></span>}</> },
      { head: "hosts", right: true, cell: (r) => r.hosts.length },
      { head: "owner", low: true, cell: (r) => <Text most={24}>{r.owner}</Text> },
      { head: "submitted", low: true, cell: (r) => clock(when(r.submitted_at)) },
    ]} />}
  </Card></div>;
}

function One({ id }: { id: string }) {
  const [test, setTest] = useState<Test | null>(null), [sum, setSum] = useState<Sum | null>(null), after = useRef("");
  const path = "/v1/load/" + encodeURIComponent(id);
  const wrong = useAsked<Test>(() => path, 3000, (t) => { setTest(t); return t.state !== "ended"; });
  const lost = useAsked<Live>(() => `${path}/live?wait_ms=1000&after=${encodeURIComponent(after.current)}`, 200, (x) => {
    after.current = x.next;
    setSum((was) => add(x.again ? null : was, x));
    return x.state !== "ended";
  });
  if (!test) return <div class="grid"><Card title="Load test" wide more={<a href={link("load")}>all tests</a>}>{wrong ? <Wrong text={wrong} /> : <p class="none loading">Loading{"\u2026"}</p>}</Card></div>;
  const x = sum?.last, steps = [...(sum?.steps.values() ?? [])].filter((s) => s.requests + s.failed > 0), going = test.state !== "ended";
  const all = steps.reduce((n, s) => n + s.requests, 0), failed = steps.reduce((n, s) => n + s.failed, 0), dropped = steps.reduce((n, s) => n + (s.dropped ?? 0), 0);
  const errors = steps.flatMap((s) => Object.entries(s.classes ?? {}).filter(([c]) => c !== "ok").map(([c, n]) => ({ key: c + " " + s.name, class: c, step: s.name, n }))).sort((a, b) => b.n - a.n);
  return <div class="grid">
    <Card title={`Load test ${test.name || test.id}`} wide more={<span class="buttons">{going && <Act of={stopLoad(test.id, test.name, test.owner)} />}<a href={link("load")}>all tests</a></span>}>
      <p class="sentence"><State of={good[word(test)] ?? word(test)} word={word(test)} />{test.why && <>: <Text>{test.why}</Text></>} {going && x && x.of > 0 && <Progress part={x.at} whole={x.of} label="of the planned time" />}</p>
      {going && x?.doing && x.doing !== "running" && <p class="dim"><Text>{x.doing}</Text></p>}
      {x?.warm && <p class="dim">Warming up: these requests are not judged.</p>}
      <Wrong text={wrong || lost} />
      <Facts of={[
        ["id", <code><Text>{test.id}</Text></code>], ["owner", <Text>{test.owner}</Text>], ["submitted", clock(when(test.submitted_at))],
        ["requests", count(all)], ["failed", share(failed, all + dropped)], ["dropped", count(dropped)],
        ...(x ? [["time", `${age(x.at)} of ${age(x.of)}`], ["planned", x.planned ? count(x.planned) + "/s" : "-"], ["users", String(x.users)], ["queue", String(x.queue)]] as [string, string][] : []),
      ]} />
      {sum && sum.p99.length > 1 && <P99 of={sum.p99} />}
    </Card>
    {steps.length > 0 && <Card title="Steps" wide><Table label="steps" rows={steps} keyOf={(s) => s.name} none="" columns={[
      { head: "step", cell: (s) => <Text most={40}>{s.name}</Text> }, { head: "requests", right: true, cell: (s) => count(s.requests) },
      { head: "p50", right: true, low: true, cell: (s) => millis(s.latency.p50) }, { head: "p95", right: true, low: true, cell: (s) => millis(s.latency.p95) },
      { head: "p99", right: true, cell: (s) => millis(s.latency.p99) }, { head: "failed", right: true, cell: (s) => share(s.failed, s.requests + (s.dropped ?? 0)) },
      { head: "checks", right: true, low: true, cell: (s) => share(s.checks.passed, s.checks.passed + s.checks.failed) },
    ]} />{going && <p class="dim">Percentiles are of the last second; the report has those of all.</p>}</Card>}
    {x && x.hosts.length > 0 && <Card title="Hosts" wide><Table label="hosts" rows={x.hosts} keyOf={(h) => h.host} none="" columns={[
      { head: "host", cell: (h) => <Text most={40}>{h.host}</Text> }, { head: "state", cell: (h) => <>{h.lost ? <span class="bad">lost: <Text most={120}>{h.lost}</Text></span> : <Text>{h.stage}</Text>}</> },
      { head: "share", right: true, cell: (h) => share(h.share, 1) }, { head: "processors", right: true, cell: (h) => <span class={h.cpu > 0.85 ? "warn" : undefined}>{share(h.cpu, 1)}</span> },
      { head: "clock", right: true, low: true, cell: (h) => "\u00B1" + millis(h.clock) },
    ]} /></Card>}
    {x?.thresholds && x.thresholds.length > 0 && <Card title="Thresholds"><Table label="thresholds" rows={x.thresholds} keyOf={(t) => t.text} none="" columns={[
      { head: "threshold", cell: (t) => <code><Text most={80}>{t.text}</Text></code> }, { head: "state", cell: (t) => <State of={t.ok ? "ok" : t.samples ? "failed" : "pending"} word={t.ok ? "holds" : t.samples ? "breached" : "no samples"} /> },
      { head: "value", right: true, cell: value },
    ]} /></Card>}
    {errors.length > 0 && <Card title="Errors"><Table label="errors" rows={errors.slice(0, 50)} keyOf={(e) => e.key} none="" columns={[
      { head: "error", cell: (e) => <Text>{e.class}</Text> }, { head: "step", cell: (e) => <Text most={40}>{e.step}</Text> }, { head: "count", right: true, cell: (e) => count(e.n) },
    ]} /></Card>}
  </div>;
}

/** add takes an answer into what was told before. */
function add(was: Sum | null, x: Live): Sum {
  const steps = new Map(was?.steps);
  for (const s of x.steps) {
    const old = steps.get(s.name), classes = { ...old?.classes };
    for (const [c, n] of Object.entries(s.classes ?? {})) classes[c] = (classes[c] ?? 0) + n;
    steps.set(s.name, {
      name: s.name, requests: (old?.requests ?? 0) + s.requests, failed: (old?.failed ?? 0) + s.failed, dropped: (old?.dropped ?? 0) + (s.dropped ?? 0), classes,
      checks: { passed: (old?.checks.passed ?? 0) + s.checks.passed, failed: (old?.checks.failed ?? 0) + s.checks.failed }, latency: s.latency.p50 || !old ? s.latency : old.latency,
    });
  }
  return { last: x, steps, p99: x.latency.p50 ? [...(was?.p99 ?? []), x.latency.p99].slice(-120) : (was?.p99 ?? []) };
}

/** P99 is a line of the last two minutes. */
function P99({ of }: { of: number[] }) {
  const most = Math.max(...of) || 1;
  return <figure><svg viewBox="0 0 240 40" width="100%" height="40" preserveAspectRatio="none" role="img" aria-label={`p99 of the last ${of.length} seconds, at most ${clean(millis(most))}`}>
    <polyline fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" points={of.map((v, i) => `${((240 * i) / Math.max(1, of.length - 1)).toFixed(1)},${(38 - (36 * v) / most).toFixed(1)}`).join(" ")} />
  </svg><figcaption class="dim">p99 of each second, at most {millis(most)}</figcaption></figure>;
}
