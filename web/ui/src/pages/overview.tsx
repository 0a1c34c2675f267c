import { Act, actions } from "../actions";
import { EventList } from "../eventlist";
import { Lanes } from "../lanes";
import { later } from "../later";
import { Card, Facts, healthOf, Host, Job, Progress, State, Table, Text } from "../parts";
import { useEffect, useState } from "preact/hooks";
import { link, type Route } from "../route";
import { eventKey, fetchEvents, get, looksBack, now } from "../store";
import { age, bytes, count, hlcTime, many, millis } from "../text";
import type { Entry, Member } from "../types";

const BadgeOfLog = later(() => import("../rest").then((m) => m.BadgeOfLog));

/** sentence says in one line how the cluster is. */
export function sentence(): { tone: string; text: string } {
  const s = get.status(), l = get.lease();
  if (!s) return { tone: "dim", text: "Waiting for the first picture" };
  const holder = l?.holder || s.lease?.holder, term = l?.term ?? s.lease?.term;
  const lease = holder ? `${holder} holds the lease of term ${term}${l?.tenure_seconds != null ? ", for " + age(l.tenure_seconds) : ""}` : "nobody holds the lease";
  const m = s.members, alive = !m ? "hosts are not told of" : m.total === 1 && m.alive === 1 ? "its one host is alive" : m.alive === m.total ? `all ${many(m.total, "host")} are alive` : `${m.alive} of ${many(m.total, "host")} are alive`;
  const jobs = s.jobs?.running ? `${many(s.jobs.running, "job")} ${s.jobs.running === 1 ? "runs" : "run"}` : "no job runs";
  const why = s.reasons?.length ? ` (${s.reasons.join(", ")})` : "";
  const well = looksBack() ? m?.alive === m?.total : s.state === "ok";
  return { tone: !holder ? "bad" : well ? "ok" : "warn", text: `${s.state}${why}: ${lease}; ${alive}; ${jobs}.` };
}

export function memberColumns(route: Route) {
  return [
    { head: "host", cell: (m: Member) => <><Host node={m.node} route={route} />{m.self && <span class="dim"> (asked)</span>}</> },
    { head: "state", cell: (m: Member) => <State of={healthOf(m.state, m.stopped)} /> },
    { head: "role", cell: (m: Member) => <>{m.role || "-"}{m.voter && <span class="dim"> voter</span>}{m.publisher && m.state === "alive" && <span class="dim"> publishes</span>}</> },
    { head: "seen", live: true, right: true, cell: (m: Member) => (m.self ? "-" : age(m.seen_seconds)) },
    { head: "rtt", live: true, right: true, low: true, cell: (m: Member) => (m.state === "alive" ? millis(m.rtt_seconds) : "-") },
    { head: "path", live: true, low: true, cell: (m: Member) => ((m.self || m.state === "alive") && m.path) || "-" },
    { head: "lacks", live: true, right: true, low: true, cell: (m: Member) => (m.self ? "-" : count(m.lag_events)) },
  ];
}

/** takenOver says of whom the present holder has the lease, and why. */
function takenOver(route: Route): [string, any][] {
  const terms = get.terms(), l = get.lease(), i = l?.holder ? terms.findIndex((t) => t.term === l.term) : -1, was = terms[i + 1], gap = terms[i]?.gap_seconds;
  if (!was || i < 0 && l?.holder) return [];
  return [[i < 0 ? "last held by" : "taken over from", <><Host node={was.holder} route={route} />{was.cause && <>: <Text most={60}>{was.cause}</Text></>}{!!gap && gap >= 1 && <span class="dim">, nobody for {age(gap)}</span>}</>]];
}

/** Each running job writes many of these a second. */
const busy = /^chunks?_(started|assigned|accepted)$/, others = "term*,lease*,step*,voters*,member*,host*,worker*,job*,chunk_failed,chunk_reclaimed,publish*,onion*,config*,token*";

/** Latest are the last events that are not of chunks that go well. */
function Latest({ route }: { route: Route }) {
  const [older, set] = useState<Entry[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    fetchEvents(new URLSearchParams({ kind: others, tail: "10" }), stop.signal).then(set, () => {}); // without them there are those of the stream
    return () => stop.abort();
  }, []);
  const all = new Map([...older.filter((e) => hlcTime(e.hlc) <= now()), ...get.events().filter((e) => !busy.test(e.kind)).slice(-10)].map((e) => [eventKey(e), e]));
  return <EventList events={[...all.values()].sort((a, b) => b.hlc - a.hlc).slice(0, 10)} route={route} />;
}

export function Overview({ route }: { route: Route }) {
  const s = get.status(), l = get.lease(), members = get.members(), jobs = get.jobs();
  const says = sentence();
  const open = jobs.filter((j) => !j.finished_at).concat(jobs.filter((j) => j.finished_at)).slice(0, 6);
  return <div class="grid">
    <p class={"sentence wide " + says.tone}><State of={says.tone === "bad" ? "failed" : says.tone === "warn" ? "degraded" : says.tone === "ok" ? "ok" : "unknown"} word="" /> <Text most={400}>{says.text}</Text></p>
    <Card title="Duties" more={l?.holder && <Act of={actions.stepDown(l.holder)} />}>
      {l && <Facts of={[
        ["holds the lease", <Host node={l.holder} route={route} />],
        ["term", `${l.term}, ${l.mode}, ${many(l.voters, "voter")}`],
        ...(looksBack() ? [] : [["renewed", l.renewed_seconds == null ? "-" : age(l.renewed_seconds) + " ago"] as [string, any]]),
        ["publishes", <Host node={l.publisher} route={route} />],
        ...takenOver(route),
        ...(l.blocked ? [["does not stand", <Text>{l.blocked}</Text>] as [string, any]] : []),
        ...(l.abstaining.length ? [["abstain", <Text>{l.abstaining.join(", ")}</Text>] as [string, any]] : []),
      ]} />}
    </Card>
    <Card title="Log" more={<a href={link("events")}>events</a>}>
      {s && <Facts of={[
        ["events", `${count(s.log.events)} of ${many(s.log.sources, "source")}`],
        ...(looksBack() ? [] : [["size", bytes(s.log.size_bytes)] as [string, any]]),
        ["state", <code title={s.log.state_hash}>{s.log.state_hash.slice(0, 12)}</code>],
      ]} />}
      {s && !looksBack() && <BadgeOfLog log={s.log} />}
    </Card>
    <Card title="Hosts" wide more={<a href={link("network")}>network</a>}>
      <Table label="hosts" columns={memberColumns(route)} rows={shortList(members)} keyOf={(m) => m.node} none="No member is known." current={(m) => m.node === l?.holder} />
      {members.length > 12 && <p class="dim">{members.length - shortList(members).length} more, <a href={link("network", [], { view: "hosts" })}>all hosts</a></p>}
    </Card>
    <Card title="Who held the lease in the last hour" wide more={<a href={link("lease")}>history</a>}><Lanes hours={1} small /></Card>
    <Card title="Jobs" wide more={<a href={link("jobs")}>all</a>}>
      <Table label="jobs" rows={open} keyOf={(j) => j.id} none="No job was submitted." columns={[
        { head: "job", cell: (j) => <Job id={j.id} name={j.name} /> },
        { head: "state", cell: (j) => <State of={j.state} /> },
        { head: "done", cell: (j) => <Progress part={j.iterations.accepted} whole={j.iterations.total} label={"job " + j.id} /> },
        { head: "rate", live: true, right: true, low: true, cell: (j) => (j.rate_per_second == null ? "-" : count(j.rate_per_second) + "/s") },
        { head: "left", live: true, right: true, cell: (j) => (j.finished_at ? "-" : age(j.eta_seconds)) },
      ]} />
    </Card>
    <Card title="Last events, but for chunks that go well" wide more={<a href={link("events")}>all</a>}><Latest route={route} /></Card>
  </div>;
}

/** shortList has those that are not well first, of many. */
function shortList(members: Member[]): Member[] {
  if (members.length <= 12) return members;
  const rank = (m: Member) => (m.state !== "alive" ? 0 : m.role === "holder" ? 1 : m.self ? 2 : 3);
  return [...members].sort((a, b) => rank(a) - rank(b)).slice(0, 10);
}
