// When workflows run by themselves. No stream tells of it: the page asks while it is shown.
import { useEffect, useState } from "preact/hooks";
import { Act, type Action, field, quoted, typable } from "../actions";
import { Card, Facts, State, Table, Text } from "../parts";
import { here, link, type Route } from "../route";
import { ask } from "../session";
import { age, clean, clock, many, when } from "../text";
import type { Schedule } from "../types";

type Time = Schedule["last"][number];

const of = (s: Schedule, what: string) => `/v1/schedules/${encodeURIComponent(s.id)}/${what}`;
const pause = (s: Schedule): Action => ({
  title: s.paused ? "Resume" : "Pause", owner: s.owner, path: of(s, s.paused ? "resume" : "pause"), body: {}, name: typable(s.name, s.id),
  consequence: s.paused ? "It begins runs again, from its next time on." : "It begins no run until it is resumed. Runs that go on are not stopped, and what it passes over meanwhile is not made up for.",
  command: `skein schedule ${s.paused ? "resume" : "pause"} ${quoted(s.name)}`, audit: (e) => e.kind === "schedule_set" && field(e, "schedule") === s.id,
});
const runNow = (s: Schedule): Action => ({
  title: "Run now", owner: s.owner, path: of(s, "run"), body: {}, name: typable(s.name, s.id), consequence: "A run of it begins now, beside those at its times.",
  command: `skein schedule run ${quoted(s.name)}`, audit: (e) => e.kind === "workflow_submitted" && field(e, "schedule") === s.id,
});

const came = (t: Time) => (t.run ? "run" : t.skipped === "missed" ? "missed" : "no run");
const missedOf = (list: Time[]) => list.reduce((n, t) => n + (t.missed ?? 0), 0);
const sayNext = (s: Schedule) => (s.paused ? <State of="stopped" word="paused" /> : s.next[0] ? <>{clock(when(s.next[0]))} <span class="dim">in{"\u00A0"}{age((when(s.next[0]) - Date.now()) / 1000)}</span></> : <span class="dim">never</span>);

export function Schedules({ route }: { route: Route }) {
  const [list, set] = useState<Schedule[] | null>(null), [wrong, fail] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const r = await ask("/v1/schedules", { signal: stop.signal }), body = await r.json();
        if (!r.ok) throw new Error(body.detail ?? `refused (${r.status})`);
        set(Array.isArray(body.schedules) ? body.schedules : []);
        fail("");
      } catch (e) {
        if (stop.signal.aborted) return;
        fail(String((e as Error).message ?? e));
      }
      timer = window.setTimeout(read, 5000);
    };
    void read();
    return () => { stop.abort(); clearTimeout(timer); };
  }, []);
  const at = route.query.get("schedule"), chosen = list?.find((s) => s.id === at || s.name === at);
  return <>
    <Card title="Schedules" wide>
      {wrong && <p class="warn" role="status"><Text>{wrong}</Text></p>}
      {list ? <Table label="schedules" rows={list.slice(0, 500)} keyOf={(s) => s.id} none="No workflow runs by itself. `skein schedule set` has one do so." current={(s) => s === chosen} columns={[
        { head: "schedule", cell: (s) => <a class="word" href={here(route, { schedule: s === chosen ? "" : s.id })}><Text most={64}>{s.name}</Text></a> },
        { head: "next", cell: sayNext },
        { head: "last", cell: (s) => <Came of={s.last[0]} /> },
        { head: "latest times", low: true, cell: (s) => <Marks of={s.last} /> },
        { head: "when", low: true, cell: (s) => <><code><Text most={64}>{s.cron}</Text></code> <span class="dim"><Text most={40}>{s.zone}</Text></span></> },
        { head: "open", low: true, right: true, cell: (s) => s.open_runs },
        { head: "owner", low: true, cell: (s) => <Text most={24}>{s.owner}</Text> },
      ]} /> : !wrong && <p class="none loading">Loading{"\u2026"}</p>}
    </Card>
    {chosen && <One s={chosen} route={route} />}
  </>;
}

/** Came says what came of a time. */
function Came({ of: t }: { of?: Time }) {
  if (!t) return <span class="dim">none yet</span>;
  return <>{t.run ? <a href={link("workflows", [t.run])}><Text most={9}>{t.run}</Text></a> : <span class="warn"><Text most={60}>{t.skipped}</Text></span>} <span class="dim">{clock(when(t.at))}</span></>;
}

/** Marks are the latest times, the last on the right: high where a run began. The table of times says the same. */
function Marks({ of }: { of: Time[] }) {
  if (!of.length) return <span class="dim">-</span>;
  const begun = of.filter((t) => t.run).length, missed = missedOf(of);
  const label = `${many(of.length, "time")}: ${many(begun, "run")}${of.length - begun ? `, ${of.length - begun} without` : ""}${missed ? `, ${missed} missed` : ""}`;
  return <svg width={of.length * 8} height="16" role="img" aria-label={label}><title>{label}</title>
    {[...of].reverse().map((t, i) => <rect key={t.at} x={i * 8} width="6" y={t.run ? 1 : 9} height={t.run ? 14 : 6} rx="1.5" class={"chunk " + (t.run ? "accepted" : "parked")} />)}</svg>;
}

function One({ s, route }: { s: Schedule; route: Route }) {
  return <Card title={"Schedule " + clean(s.name, 64)} wide more={<span class="buttons"><Act of={pause(s)} /><Act of={runNow(s)} /><a href={here(route, { schedule: "" })}>close</a></span>}>
    <Facts of={[
      ["workflow", <Text most={64}>{s.workflow}</Text>], ["owner", <Text>{s.owner}</Text>], ["when", <><code><Text most={64}>{s.cron}</Text></code> <Text most={40}>{s.zone}</Text></>],
      ["next", s.paused ? "paused" : s.next.map((t) => clock(when(t))).join(", ") || "never"], ["while another goes on", <Text>{s.overlap}</Text>], ["missed times", <Text>{s.missed}</Text>], ["open runs", s.open_runs],
    ]} />
    <h3>Times</h3>
    <Table label={"times of " + clean(s.name, 64)} rows={s.last} keyOf={(t) => t.at} none="None has come yet." columns={[
      { head: "at", cell: (t) => clock(when(t.at)) },
      { head: "came", cell: (t) => <State of={t.run ? "completed" : "skipped"} word={came(t)} /> },
      { head: "run", cell: (t) => (t.run ? <a href={link("workflows", [t.run])}><Text most={9}>{t.run}</Text></a> : <span class="said"><Text most={120}>{t.skipped || "-"}</Text></span>) },
      { head: "late", low: true, right: true, cell: (t) => age((when(t.logged_at) - when(t.at)) / 1000) },
      { head: "missed before", low: true, right: true, cell: (t) => t.missed || "-" },
    ]} />
  </Card>;
}
