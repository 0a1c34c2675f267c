// Events as sentences, in a list.
import { Text } from "./parts";
import { link, type Route } from "./route";
import { eventKey } from "./store";
import { clean, clock, hlcTime } from "./text";
import type { Entry } from "./types";

const tones: [RegExp, string][] = [
  [/^(lease_lost|equivocation|member_conflict|chunk_failed|publish_failed|publish_foreign|duplicate|chain_ahead|worker_down|mtu_)/, "bad"],
  [/^(term_start|lease_|step_down|voters_|config_changed)/, "info"],
  [/^(member_|token_|host_|incarnation)/, "ok"],
];

function toneOf(e: Entry): string {
  const { to, stopped } = (e.body ?? {}) as { to?: unknown; stopped?: unknown };
  if (e.kind === "member_health" && (to === "suspect" || to === "dead")) return to === "dead" && stopped !== true ? "bad" : "warn";
  return tones.find(([re]) => re.test(e.kind))?.[1] ?? "dim";
}

/** chips are the nouns of an event: each filters by itself. */
function chips(e: Entry): [string, string][] {
  const b = (e.body && typeof e.body === "object" ? e.body : {}) as Record<string, unknown>, out: [string, string][] = [];
  for (const key of ["node", "worker", "successor", "peer", "host"]) if (typeof b[key] === "string" && b[key]) out.push(["node", b[key] as string]);
  if (typeof b.job === "string" && b.job) out.push(["job", b.job]);
  return out.filter(([k, v], i) => out.findIndex(([k2, v2]) => k === k2 && v === v2) === i && !/\s/.test(v)).slice(0, 3);
}

export function EventList({ events, route }: { events: Entry[]; route: Route }) {
  if (events.length === 0) return <p class="none">No event.</p>;
  const filter = (q: string) => link("events", [], { q });
  return <ol class="events">{events.map((e) => <li key={eventKey(e)}>
    <a class="time" href={link("events", [e.source.node, String(e.source.inc), String(e.seq)], route.page === "events" ? Object.fromEntries(route.query) : {})} title={`event ${e.seq} of ${clean(e.source.node)}`}>
      <time dateTime={new Date(hlcTime(e.hlc) || 0).toISOString()}>{clock(hlcTime(e.hlc))}</time></a>
    <a class="by" href={filter("node:" + e.source.node)}><Text most={20}>{e.source.node}</Text></a>
    <a class={"kind " + toneOf(e)} href={filter("kind:" + e.kind)}><Text most={40}>{e.kind}</Text></a>
    <span class="says"><Text most={400}>{e.text || e.kind}</Text>
      {chips(e).map(([k, v]) => <a key={k + v} class="chip" href={filter(`${k}:${v}`)} title={`events about ${k} ${clean(v, 60)}`}>{k} <Text most={10}>{v}</Text></a>)}</span>
  </li>)}</ol>;
}
