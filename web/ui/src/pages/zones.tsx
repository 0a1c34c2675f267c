// How the zones are, and where the hosts lie. The page asks while it is open: the stream
// tells of zones only who wants it.
import { useEffect, useState } from "preact/hooks";
import { Card, Host, Progress, State, Table, Text, Untold, healthOf } from "../parts";
import type { Route } from "../route";
import { ask } from "../session";
import "../shell"; // as in rest.ts
import { get, looksBack } from "../store";
import { age, clock, count, hlcTime, many, millis } from "../text";

interface Zone {
  zone: string; health: string; why?: string; for_seconds: number; hosts: number; alive: number; drained: number; slots: number; free: number; queued: number; voters: number;
  rtt_seconds: number | null; rtt_from?: string;
}
interface Zones { holder: string; unzoned: number; omitted?: number; zones: Zone[] }

const tone: Record<string, string> = { healthy: "ok", busy: "running", degraded: "degraded", unhealthy: "failed" };
const far = (z: Zone) => (z.rtt_seconds === null ? "-" : millis(z.rtt_seconds));

/** useZones asks each two seconds. */
function useZones(): [Zones | null, string] {
  const [zones, set] = useState<Zones | null>(null), [wrong, say] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const r = await ask("/v1/zones", { signal: stop.signal }), body = await r.json();
        if (!r.ok) throw new Error(body.detail ?? `refused (${r.status})`);
        set(body);
        say("");
      } catch (e) {
        if (stop.signal.aborted) return;
        say(String((e as Error).message ?? e));
      }
      timer = window.setTimeout(read, 2000);
    };
    void read();
    return () => { stop.abort(); clearTimeout(timer); };
  }, []);
  return [zones, wrong];
}

export function ZonesPage({ route }: { route: Route }) {
  return looksBack() ? <Untold title="Zones" /> : <Now route={route} />;
}

function Now({ route }: { route: Route }) {
  const [z, wrong] = useZones();
  const members = get.members().filter((m) => !m.removed), told = get.events().filter((e) => e.kind === "zone_health" || e.kind === "job_zones").slice(-12).reverse();
  return <div class="grid">
    <Card title="Zones" wide>
      {wrong && <p class="bad" role="alert"><Text most={300}>{wrong}</Text></p>}
      {!z && !wrong && <p class="none loading">Loading{"\u2026"}</p>}
      {z && !z.holder && <p class="warn">The holder does not answer: this is what the host that serves the page sees, which knows nothing of workers.</p>}
      {z && <Table label="zones" rows={z.zones} keyOf={(r) => r.zone} none="No host names a zone: node.zone in its configuration puts it into one." columns={[
        { head: "zone", cell: (r) => <Text most={32}>{r.zone}</Text> },
        { head: "health", cell: (r) => <><State of={tone[r.health] ?? "unknown"} word={r.health} />{r.why && <span class="dim said"><Text most={120}>{r.why}</Text></span>}</> },
        { head: "hosts", right: true, cell: (r) => `${r.alive}/${r.hosts}` },
        { head: "drained", right: true, low: true, cell: (r) => r.drained || "" },
        { head: "in use", low: true, cell: (r) => (r.slots ? <Progress part={r.slots - r.free} whole={r.slots} label={`slots in use of ${r.zone}`} /> : <span class="dim">no slots</span>) },
        { head: "slots", right: true, low: true, cell: (r) => count(r.slots) },
        { head: "waiting", right: true, low: true, cell: (r) => count(r.queued) },
        { head: "voters", right: true, low: true, cell: (r) => r.voters },
        { head: "away", right: true, low: true, cell: (r) => <>{far(r)}{r.rtt_from && r.rtt_from !== "measured" && <span class="dim said">{r.rtt_from}</span>}</> },
        { head: "for", right: true, low: true, cell: (r) => age(r.for_seconds) },
      ]} />}
      {z && z.unzoned > 0 && <p class="dim">{many(z.unzoned, "host")} in no zone.</p>}
      {z && !!z.omitted && <p class="dim">{many(z.omitted, "zone")} more.</p>}
    </Card>
    {z?.zones.map((r) => <Card key={r.zone} title={r.zone} more={<span class="dim">{r.alive} of {many(r.hosts, "host")} alive</span>}>
      <Table label={`hosts of ${r.zone}`} rows={members.filter((m) => m.zone === r.zone).slice(0, 100)} keyOf={(m) => m.node} none="No host is in it any more." columns={[
        { head: "host", cell: (m) => <Host node={m.node} route={route} /> },
        { head: "state", cell: (m) => <State of={healthOf(m.state, m.stopped)} /> },
        { head: "votes", low: true, cell: (m) => (m.voter ? "yes" : "") },
        { head: "away", right: true, cell: (m) => (m.self ? "here" : m.rtt_seconds === null ? "-" : millis(m.rtt_seconds)) },
      ]} />
    </Card>)}
    {told.length > 0 && <Card title="What became of them" wide><Table label="events of zones" rows={told} keyOf={(e) => `${e.source.node}/${e.source.inc}:${e.seq}`} none="" columns={[
      { head: "when", cell: (e) => clock(hlcTime(e.hlc)) }, { head: "what", cell: (e) => <Text most={200}>{e.text}</Text> },
    ]} /></Card>}
  </div>;
}
