import { Act, actions } from "../actions";
import { Card, healthOf, Host, State, Table, Text, Untold } from "../parts";
import { type Route } from "../route";
import { get, looksBack } from "../store";
import { age, count } from "../text";

export function WorkersPage({ route }: { route: Route }) {
  const all = get.workers(), workers = all.filter((w) => !w.owners), l = get.lease();
  if (looksBack()) return <Untold title="Workers" />;
  return <div class="grid"><Card title="Workers" wide>
    <p class="dim">As the holder sees them{l?.holder ? <>: <Text>{l.holder}</Text></> : ""}. After a change of the holder the list is empty for a moment.</p>
    <Table label="workers" rows={workers} keyOf={(w) => w.node} none="The holder knows no worker: there is none, or nobody holds the lease." columns={[
      { head: "host", cell: (w) => <Host node={w.node} route={route} /> },
      { head: "lives", cell: (w) => <State of={healthOf(w.live, w.stopped)} /> },
      { head: "takes work", cell: (w) => (w.draining ? <State of="degraded" word="draining" /> : !w.connected ? <State of="dead" word="no stream" /> : w.ready ? <State of="ok" word="ready" /> : <State of="suspect" word="not ready" />) },
      { head: "progress", low: true, cell: (w) => <State of={w.progress} /> },
      { head: "verdict", low: true, cell: (w) => <Text>{w.verdict}</Text> },
      { head: "has", right: true, cell: (w) => `${w.assigned}/${w.window}` },
      { head: "slots", right: true, low: true, cell: (w) => w.slots },
      { head: "rate", right: true, low: true, cell: (w) => (w.rate_per_second == null ? "-" : count(w.rate_per_second) + "/s") },
      { head: "done in", right: true, low: true, cell: (w) => (w.assigned ? age(w.drain_seconds) : "-") },
      { head: "accepts", low: true, cell: (w) => <Text most={60}>{[w.accept, ...(w.accept_names ?? [])].filter(Boolean).join(" ") || "-"}</Text> },
      { head: "action", right: true, low: true, cell: (w) => <Act of={actions.drain(w.node, w.draining)} /> },
    ]} />
    {all.map((g) => g.owners && <details key={g.node}>
      <summary>{g.workers} outside workers {g.via ? <>at <Text>{g.via}</Text></> : "away"}: {g.assigned}/{g.window} chunks, {count(g.rate_per_second ?? 0)}/s</summary>
      <Table label={g.node} rows={g.owners} keyOf={(o) => o.owner + o.kind} none="" columns={[
        { head: "owner", cell: (o) => <Text>{o.owner || "others"}</Text> },
        { head: "kind", cell: (o) => <Text>{o.kind}</Text> },
        { head: "workers", right: true, cell: (o) => o.workers },
      ]} />
    </details>)}
  </Card></div>;
}
