import { Act, actions } from "../actions";
import { Card, Facts, healthOf, Host, State, Table, Text, Untold } from "../parts";
import { link, type Route } from "../route";
import { get, looksBack } from "../store";
import { age, bytes, clock, count, when } from "../text";

export function OnionPage({ route }: { route: Route }) {
  const o = get.onion();
  if (looksBack()) return <Untold title="Onion addresses" />;
  if (!o) return <div class="grid"><Card title="Onion addresses" wide><p class="none">Waiting for the first picture.</p></Card></div>;
  return <div class="grid">
    {o.problems.length > 0 && <Card title="To be mended" wide><ul>{o.problems.map((p) => <li key={p} class="bad"><Text most={400}>{p}</Text></li>)}</ul></Card>}
    {o.addresses.length === 0 && <Card title="Onion addresses" wide><p class="none">The cluster serves no onion address. <code>skein onion init</code> makes one.</p></Card>}
    {o.addresses.map((a) => <Card key={a.address} title="Onion address" wide more={<a href={link("events", [], { q: "kind:publish*,onion*" })}>its events</a>}>
      <p><code class="hash"><Text>{a.address}</Text></code></p>
      <Facts of={[
        ["publishes", <Host node={a.publisher} route={route} />],
        ["published", a.published_at ? `${age((Date.now() - when(a.published_at)) / 1000)} ago` : a.publishing ? "not yet" : "another host does"],
        ["descriptors made", count(a.descriptors)], ["size", a.size ? bytes(a.size) : "-"],
        ["who may find it", a.clients.length ? <Text>{a.clients.join(", ")}</Text> : "everybody"],
        ["hosts with its key", <Text>{a.keepers.join(", ") || "none that lives"}</Text>],
        ["another's descriptor", a.foreign_at ? <span class="bad">{clock(when(a.foreign_at))}</span> : "never found"],
        ...(a.fenced ? [["fenced", "a later publisher is at work"] as [string, any]] : []),
      ]} />
      <h3>Introduction points in the newest descriptor</h3>
      <Table label="points by host" rows={Object.entries(a.points).sort(([x], [y]) => (x < y ? -1 : 1))} keyOf={([n]) => n} none="This host has not published it: ask the one that does." columns={[
        { head: "host", cell: ([n]) => <Host node={n} route={route} /> }, { head: "points", right: true, cell: ([, n]) => n },
      ]} />
    </Card>)}
    {o.hosts.length > 0 && <Card title="Hosts" wide>
      <Table label="hosts that serve onion addresses" rows={o.hosts} keyOf={(h) => h.node} none="" columns={[
        { head: "host", cell: (h) => <Host node={h.node} route={route} /> },
        { head: "state", low: true, cell: (h) => <State of={healthOf(h.health, h.stopped)} /> },
        { head: "serves", cell: (h) => (h.serving ? <State of="ok" word="yes" /> : <State of={h.weight === 0 ? "degraded" : "left"} word={h.weight === 0 ? "drained" : "no"} />) },
        { head: "points", right: true, low: true, cell: (h) => (h.asked ? `${h.points}/${h.asked}` : h.points) },
        { head: "service", low: true, cell: (h) => (h.healthy ? <State of="ok" word="healthy" /> : <State of="dead" word="fails" />) },
        { head: "why left out", cell: (h) => <span class="said"><Text>{h.left_out || h.reason || "-"}</Text></span> },
        { head: "action", right: true, low: true, cell: (h) => <Act of={actions.onionDrain(h.node, h.weight === 0)} /> },
      ]} /></Card>}
    <Card title="tor of this host">{o.tor.enabled ? <Facts of={[
      ["state", <State of={o.tor.state === "ready" ? "ok" : o.tor.state === "faulty" ? "dead" : "joining"} word={o.tor.state} />], ["version", <Text>{o.tor.version}</Text>],
      ["bootstrap", o.tor.bootstrap_percent + " %"], ["restarts", o.tor.restarts], ...(o.tor.reason ? [["why", <Text>{o.tor.reason}</Text>] as [string, any]] : []),
    ]} /> : <p class="none">Not enabled here (<code>tor.enabled</code>).</p>}</Card>
  </div>;
}
