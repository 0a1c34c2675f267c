import { Act, actions } from "../actions";
import { Facts, healthOf, State, Text, useReturn } from "../parts";
import { here, link, type Route } from "../route";
import { get, looksBack } from "../store";
import { age, clean, clock, count, many, millis, when } from "../text";

/** told leaves out of what is known of a host what no log says. */
function told(facts: [string, any][]): [string, any][] {
  return looksBack() ? facts.filter(([name]) => ["role", "address", "version"].includes(name)) : facts;
}

/** Drawer is what is known of one host, beside any page. */
export function Drawer({ node, route }: { node: string; route: Route }) {
  const m = get.member(node), w = get.workers().find((x) => x.node === node), l = get.lease();
  const onion = get.onion()?.hosts.find((h) => h.node === node);
  const links = [...get.links().values()].filter((x) => x.from === node);
  const up = links.filter((x) => x.state === "alive").length, unknown = links.filter((x) => x.state === "unknown").length;
  const skew = m?.skew_seconds, ref = useReturn(true);
  return <aside ref={ref} tabIndex={-1} class="drawer" aria-label={"host " + clean(node, 60)}>
    <h2><Text most={40}>{node}</Text><a class="x" href={here(route, { host: "" })} aria-label="close">{"\u00D7"}</a></h2>
    {!m ? <p class="none">No member has this name now.</p> : <>
      <p><State of={healthOf(m.state, m.stopped)} />{m.self && <span class="dim"> the page asks this host</span>}</p>
      <Facts of={told([
        ["seen", m.self ? "-" : m.seen_seconds == null ? "never" : age(m.seen_seconds) + " ago"],
        ["role", <>{m.role || "not known"}{m.voter ? ", votes" : ""}{m.witness ? ", witness" : ""}{m.publisher && m.state === "alive" ? ", publishes" : ""}</>],
        ["term", m.term || "not known"], ["zone", <Text>{m.zone || "-"}</Text>], ["priority", m.priority],
        ["rtt", m.state === "alive" ? millis(m.rtt_seconds) : "-"], ["path", ((m.self || m.state === "alive") && m.path) || "none known"],
        ["sees others", links.length ? `${up} alive${links.length - up - unknown ? `, ${links.length - up - unknown} not` : ""}${unknown ? `, ${unknown} unknown` : ""}` : "-"],
        ["clock", skew == null ? "-" : (skew >= 0 ? "+" : "") + skew.toFixed(3) + "s"],
        ["log lacks", m.self ? "-" : m.lag_events == null ? "not known" : many(m.lag_events, "event")],
        ["address", <><Text>{m.addr}</Text><br /><Text>{m.addr6}</Text></>],
        ["reached at", <Text>{m.endpoints.join(", ") || "-"}</Text>], ["behind NAT", m.nat ? "yes" : "no"],
        ["version", <Text>{m.version}</Text>],
        ["certificate", m.cert_expires_at ? "until " + clock(when(m.cert_expires_at), 0) : "does not expire"],
        ...(w ? [["worker", <><State of={w.progress} />, {w.assigned} of {Math.max(w.assigned, w.window)}{w.rate_per_second != null && <>, {count(w.rate_per_second)}/s</>}{w.draining && ", draining"}</>] as [string, any]] : []),
        ...(onion ? [["onion", `${onion.points} points${onion.left_out ? ", left out: " + onion.left_out : ""}`] as [string, any]] : []),
      ])} />
      <p class="buttons">
        {w && <Act of={actions.drain(node, w.draining)} />}
        {onion?.address && <Act of={actions.onionDrain(node, onion.weight === 0)} />}
        {l?.holder === node && <Act of={actions.stepDown(node)} />}
      </p>
      <p class="buttons"><a href={link("events", [], { q: "node:" + node, host: node })}>its events</a><a href={link("network", [], { host: node })}>its links</a></p>
    </>}
  </aside>;
}
