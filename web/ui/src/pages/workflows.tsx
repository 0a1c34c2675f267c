import { useEffect, useState } from "preact/hooks";
import { Act, type Action, field, quoted, typable } from "../actions";
import { before, ended, Graph, ignored, over } from "../graph";
import { Card, Facts, Job as JobLink, Progress, State, Table, Text, Untold } from "../parts";
import { here, link, type Route } from "../route";
import { ask } from "../session";
import { get, looksBack } from "../store";
import { age, clean, clock, many, when } from "../text";
import type { Run, RunStep } from "../types";
import { Schedules } from "./schedules";
import { Disputed, Group, StateOfRun, Waiting } from "./waiting";

const stopRun = (id: string, name: string, owner: string): Action => ({
  title: "Stop run", owner, path: `/v1/workflows/${encodeURIComponent(id)}/stop`, body: { reason: "asked in the page" }, name: typable(name, id), danger: true,
  consequence: "The jobs of its steps end, then its teardown runs. What is completed keeps its outputs.", command: `skein workflow stop ${quoted(id)}`,
  audit: (e) => e.kind === "workflow_stopped" && field(e, "run") === id,
});
const retryRun = (id: string, name: string, owner: string): Action => ({
  title: "Retry run", owner, path: `/v1/workflows/${encodeURIComponent(id)}/retry`, body: {}, name: typable(name, id),
  consequence: "What is not completed begins again, in the same run. What is completed does not run again.", command: `skein workflow retry ${quoted(id)}`,
  audit: (e) => e.kind === "workflow_retried" && field(e, "run") === id,
});

export function WorkflowsPage({ route }: { route: Route }) {
  if (looksBack()) return <Untold title="Workflows" />;
  if (route.rest[0]) return <One id={route.rest[0]} route={route} />;
  const runs = get.runs();
  return <div class="grid"><Card title="Workflows" wide>
    <Table label="runs of workflows" rows={runs.slice(0, 500)} keyOf={(r) => r.id} none="No workflow was submitted. `skein workflow run` does." columns={[
      { head: "run", cell: (r) => <a href={link("workflows", [r.id])}><Text most={40}>{r.name || r.id}</Text></a> },
      { head: "state", cell: (r) => <><StateOfRun run={r} />{r.reason && <span class="dim said"><Text most={80}>{r.reason}</Text></span>}</> },
      { head: "owner", low: true, cell: (r) => <Text most={24}>{r.owner}</Text> },
      { head: "id", low: true, cell: (r) => <code><Text most={9}>{r.id}</Text></code> },
      { head: "retries", right: true, low: true, cell: (r) => r.round },
      { head: "time", right: true, cell: (r) => age(r.elapsed_seconds) },
      { head: "submitted", low: true, cell: (r) => clock(when(r.submitted_at)) },
    ]} />
    {runs.length > 500 && <p class="dim">The newest 500 of {runs.length}.</p>}
  </Card><Schedules route={route} /><Waiting /></div>;
}

function One({ id, route }: { id: string; route: Route }) {
  const r = get.run(id) ?? get.runs().find((x) => x.id === id || x.name === id);
  if (!r) return <div class="grid"><Card title="Workflow" wide more={<a href={link("workflows")}>all runs</a>}><p class="none">No run has this id or name.</p></Card></div>;
  const steps = r.steps ?? [], done = steps.filter((s) => over(s.state)).length;
  const chosen = steps.find((s) => s.name === route.query.get("step"));
  return <div class="grid">
    <Card title={`Workflow ${r.name || r.id}`} wide more={<span class="buttons">
      {!r.finished_at && <Act of={stopRun(r.id, r.name, r.owner)} />}
      {r.finished_at && r.state !== "completed" && <Act of={retryRun(r.id, r.name, r.owner)} />}
      <a href={link("workflows")}>all runs</a></span>}>
      <p class="sentence"><StateOfRun run={r} />{r.reason && <>: <Text>{r.reason}</Text></>} {r.steps && <Progress part={done} whole={steps.length} label="steps that have ended" />}</p>
      {r.stopped_by && <p class="warn">Stopped by <Text most={60}>{r.stopped_by}</Text>{r.stop_reason && <>: <Text>{r.stop_reason}</Text></>}</p>}
      <Facts of={[
        ["id", <code><Text>{r.id}</Text></code>], ["owner", <Text>{r.owner}</Text>], ["submitted", clock(when(r.submitted_at))],
        [r.finished_at ? "took" : r.place ? "waits for" : "runs for", age(r.elapsed_seconds)], ["steps", r.steps ? `${done} of ${steps.length} ended` : "-"], ["retries", r.round],
        ...(r.schedule ? [["schedule", <a href={link("workflows", [], { schedule: r.schedule })}><Text most={9}>{r.schedule}</Text></a>]] as [string, any][] : []),
      ]} />
    </Card>
    {r.place && <Group of={r} />}
    <Disputed run={r} />
    {r.steps && <Card title="Graph" wide><Graph steps={steps} chosen={chosen?.name ?? ""} to={(s) => here(route, { step: s === chosen ? "" : s.name })} /></Card>}
    {r.steps && <Card title="Steps" wide>
      <Table label="steps" rows={steps} keyOf={(s) => s.name} none="It has no steps." current={(s) => s === chosen} columns={[
        { head: "step", cell: (s) => <a class="word" href={here(route, { step: s === chosen ? "" : s.name })}><Text most={64}>{s.name}</Text></a> },
        { head: "state", cell: (s) => <><State of={s.state} />{ignored(s) && <span class="dim"> ignored</span>}{s.disputed ? <span class="warn"> {s.disputed} disputed</span> : null}{s.reason && <span class="dim said"><Text most={200}>{s.reason}</Text></span>}</> },
        { head: "done", right: true, cell: (s) => (s.total ? `${ended(s)}/${s.total}` : "-") },
        { head: "after", low: true, cell: (s) => <Text>{before(s).join(", ") || "-"}</Text> },
        { head: "role", low: true, cell: (s) => <Text>{s.role || "-"}</Text> },
        { head: "job", low: true, cell: (s) => (s.instances?.length === 1 && s.instances[0]!.job ? <JobLink id={s.instances[0]!.job} name={clean(s.instances[0]!.job, 9)} /> : "-") },
      ]} />
    </Card>}
    {chosen && <Instances key={chosen.name} run={r} step={chosen} route={route} />}
  </div>;
}

/** Instances are those of one step, with what came out of them: a stream does not tell that. */
function Instances({ run, step, route }: { run: Run; step: RunStep; route: Route }) {
  const [outputs, set] = useState<Map<number, string>>(new Map());
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      const r = await ask("/v1/workflows/" + encodeURIComponent(run.id), { signal: stop.signal });
      const whole = r.ok ? ((await r.json()) as Run).steps?.find((s) => s.name === step.name) : null;
      if (whole) set(new Map(whole.instances.filter((i) => i.outputs).map((i) => [i.index, Object.entries(i.outputs!).map(([n, v]) => `${n} ${JSON.stringify(v)}`).join(", ")])));
    };
    if (ended(step)) read().catch(() => {}); // without them the states are shown
    return () => stop.abort();
  }, [ended(step)]);
  const list = step.instances ?? [];
  return <Card title={"Step " + step.name} wide more={<a href={here(route, { step: "" })}>close</a>}>
    <Table label={"instances of " + step.name} rows={list} keyOf={(i) => String(i.index)} none="None has begun: it waits for the steps before it." columns={[
      { head: "index", right: true, cell: (i) => i.index },
      { head: "state", cell: (i) => <><State of={i.state} />{i.disputed && <span class="warn"> disputed</span>}{i.reason && <span class="dim said"><Text most={200}>{i.reason}</Text></span>}</> },
      { head: "item", low: true, cell: (i) => (i.item === undefined ? "-" : <Text most={60}>{JSON.stringify(i.item)}</Text>) },
      { head: "try", right: true, cell: (i) => i.try || "-" },
      { head: "job", cell: (i) => (i.job ? <JobLink id={i.job} name={clean(i.job, 9)} /> : "-") },
      { head: "outputs", low: true, cell: (i) => <Text most={120}>{outputs.get(i.index) ?? "-"}</Text> },
    ]} />
    {step.total > list.length && list.length > 0 && <p class="dim">{list.length} of {many(step.total, "instance")}: those first that need a look.</p>}
  </Card>;
}
