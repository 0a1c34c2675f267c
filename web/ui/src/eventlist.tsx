// Events as sentences, in a list.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Text } from "./parts";
import { link, type Route } from "./route";
import { eventKey, get } from "./store";
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

const filter = (q: string) => link("events", [], { q });

function Row({ e, route, of, at }: { e: Entry; route: Route; of?: number; at?: number }) {
  return <li aria-setsize={of} aria-posinset={at}>
    <a class="time" href={link("events", [e.source.node, String(e.source.inc), String(e.seq)], route.page === "events" ? Object.fromEntries(route.query) : {})} title={`event ${e.seq} of ${clean(e.source.node)}`}>
      <time dateTime={new Date(hlcTime(e.hlc) || 0).toISOString()}>{clock(hlcTime(e.hlc))}</time></a>
    <a class="by" href={filter("node:" + e.source.node)}><Text most={20}>{e.source.node}</Text></a>
    <a class={"kind " + toneOf(e)} href={filter("kind:" + e.kind)}><Text most={40}>{e.kind}</Text></a>
    <span class="says"><Text most={400}>{e.text || e.kind}</Text>
      {chips(e).map(([k, v]) => <a key={k + v} class="chip" href={filter(`${k}:${v}`)} title={`events about ${k} ${clean(v, 60)}`}>{k} <Text most={16}>{k === "job" ? get.nameOf(v) : v}</Text></a>)}</span>
  </li>;
}

/** EventList shows events, the latest first. Of many only those near what is seen are in the page. */
export function EventList({ events, route }: { events: Entry[]; route: Route }) {
  if (events.length === 0) return <p class="none">No event.</p>;
  if (events.length > 60) return <Long events={events} route={route} />;
  return <ol class="events">{events.map((e) => <Row key={eventKey(e)} e={e} route={route} />)}</ol>;
}

/** so many rows come and go together; so far beyond the screen they are there */
const block = 10, beyond = 250;

function Long({ events, route }: { events: Entry[]; route: Route }) {
  const list = useRef<HTMLOListElement>(null), [, look] = useState(0);
  // Blocks are counted from the oldest event, so that they stay when others come.
  const known = useRef<{ since: string; high: number[] }>({ since: "", high: [] }).current;
  const n = events.length, since = eventKey(events[n - 1]!), blocks = Math.ceil(n / block);
  if (known.since !== since) { known.since = since; known.high = []; }
  useEffect(() => {
    let due = 0;
    const f = () => { due ||= requestAnimationFrame(() => { due = 0; look((k) => k + 1); }); };
    addEventListener("scroll", f, { passive: true });
    addEventListener("resize", f);
    return () => { cancelAnimationFrame(due); removeEventListener("scroll", f); removeEventListener("resize", f); };
  }, []);
  const told = known.high.filter((h) => h > 0), usual = told.length ? told.reduce((a, h) => a + h, 0) / told.length : 33 * block;
  let y = list.current?.getBoundingClientRect().top ?? 200, above = 0, below = 0, from = -1, to = -1;
  for (let b = blocks - 1; b >= 0; b--) {
    const h = known.high[b] ?? usual;
    if (y + h < -beyond && b > 0) above += h;
    else if (y > innerHeight + beyond && from >= 0) below += h;
    else { if (from < 0) from = b; to = b; }
    y += h;
  }
  useLayoutEffect(() => {
    const rows = [...list.current!.children] as HTMLElement[];
    let fresh = false;
    for (let b = from; b >= to; b--) {
      // Rows that lie in block b: of the newest there may be fewer.
      const first = n - Math.min(n, (b + 1) * block), start = n - Math.min(n, (from + 1) * block);
      const top = rows[1 + first - start]!, end = rows[1 + n - b * block - start]!;
      const h = end.getBoundingClientRect().top - top.getBoundingClientRect().top;
      if (Math.abs(h - (known.high[b] ?? usual)) > 1) fresh = true;
      known.high[b] = h;
    }
    if (fresh) look((k) => k + 1);
  });
  const first = n - Math.min(n, (from + 1) * block);
  return <ol class="events" ref={list}>
    <li class="room" aria-hidden="true" style={{ height: above }} />
    {events.slice(first, n - to * block).map((e, i) => <Row key={eventKey(e)} e={e} route={route} of={n} at={first + i + 1} />)}
    <li class="room" aria-hidden="true" style={{ height: below }} />
  </ol>;
}
