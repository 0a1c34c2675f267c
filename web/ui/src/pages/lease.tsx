import { useEffect, useState } from "preact/hooks";
import { Act, actions } from "../actions";
import { EventList } from "../eventlist";
import { Lanes } from "../lanes";
import { Card, Choice, Facts, Host, Table, Text } from "../parts";
import { go, here, link, type Route } from "../route";
import { fetchEvents, get, looksBack, now as moment } from "../store";
import { age, clock, many, when } from "../text";
import type { Entry } from "../types";

const windows: [string, number][] = [["15m", 0.25], ["1h", 1], ["6h", 6], ["1d", 24], ["7d", 168], ["all", 0]];

export function LeasePage({ route }: { route: Route }) {
  const l = get.lease(), terms = get.terms(), now = moment();
  const chosen = route.query.get("span") ?? "1h", hours = windows.find(([n]) => n === chosen)?.[1] ?? 1;
  const from = Date.parse(route.query.get("from") ?? ""), to = Date.parse(route.query.get("to") ?? "");
  const choose = (a: number, b: number) => go(here(route, { from: new Date(a).toISOString(), to: new Date(b).toISOString() }));
  const brushed: [number, number] | null = from < to ? [from, to] : null;
  return <div class="grid">
    <Card title="Lease" wide more={l?.holder && <Act of={actions.stepDown(l.holder)} />}>
      {l && <Facts of={[
        ["holder", <Host node={l.holder} route={route} />], ["term", l.term], ["mode", l.mode], ...(looksBack() ? [] : [["profile", l.profile] as [string, any]]),
        ...(looksBack() ? [] : [
          ["renewed", l.renewed_seconds == null ? "-" : age(l.renewed_seconds) + " ago"],
          ["guard ends", l.expires_seconds == null ? "-" : "in " + age(l.expires_seconds)],
        ] as [string, any][]),
        ["held for", age(l.tenure_seconds)],
        ["voters", <Text>{l.config.voters.join(", ")}</Text>], ["publishes", <><Host node={l.publisher} route={route} />{!looksBack() && l.publish_why && <span class="dim"> {l.publish_why === "lease" ? "as the holder" : l.publish_why}</span>}</>],
        ...(l.blocked ? [["does not stand", <Text>{l.blocked}</Text>] as [string, any]] : []),
      ]} />}
    </Card>
    <Card title="Who held it" wide more={<Choice label="span of time" now={chosen} of={windows.map(([n]) => [n, here(route, { span: n })])} />}>
      <Lanes hours={hours} chosen={brushed} choose={choose} />
      <p class="legend"><span><span class="key bar-key" /> a term</span> <span><span class="key now-key" /> the present one</span> <span><span class="key gap-key" /> nobody is known to have held it</span>
        <span><span class="key overlap-key" /> two held it</span> <span><span class="key cut-key" /> the last that its holder wrote: it said nothing of the end</span> <span class="dim">draw over a span for its events</span></p>
    </Card>
    {brushed && <Brushed from={from} to={to} route={route} />}
    <Card title="Terms" wide>
      <Table label="terms" rows={terms.slice(0, 200)} keyOf={(t) => String(t.term)} none="No term is in the log yet." current={(t) => !t.ended_at && t.term === l?.term} columns={[
        { head: "term", cell: (t) => <a href={link("events", [], { q: `term:${t.term}` })}>{t.term}</a> },
        { head: "holder", cell: (t) => <Host node={t.holder} route={route} /> },
        { head: "from", low: true, cell: (t) => clock(when(t.started_at)) },
        { head: "to", low: true, cell: (t) => (t.ended_at ? clock(when(t.ended_at)) : t.term === l?.term ? "now" : "not known") },
        { head: "held", right: true, low: true, cell: (t) => (t.ended_at || t.term === l?.term ? age(((when(t.ended_at) || now) - when(t.started_at)) / 1000) : "-") },
        { head: "ended", cell: (t) => <><Text>{t.cause || "-"}</Text>{t.successor && <>, then <Host node={t.successor} route={route} /></>}</> },
        { head: "last known", low: true, cell: (t) => (t.last_evidence_at ? clock(when(t.last_evidence_at)) : "-") },
        { head: "gap before", right: true, cell: (t) => (t.gap_seconds == null ? "?" : t.gap_seconds === 0 ? "-" : <span class="bad">{t.gap_seconds < 1 ? Math.round(t.gap_seconds * 1000) + "ms" : age(t.gap_seconds)}</span>) },
        { head: "granted by", low: true, cell: (t) => <><Text>{t.grants.join(", ")}</Text> <span class="dim">of {many(t.voters.length, "voter")}</span></> },
      ]} />
      {terms.length > 200 && <p class="dim">The newest 200 of {terms.length}.</p>}
    </Card>
  </div>;
}

/** Brushed are the events of a span of time. */
function Brushed({ from, to, route }: { from: number; to: number; route: Route }) {
  const [got, set] = useState<{ key: string; list: Entry[]; wrong: string }>({ key: "", list: [], wrong: "" });
  const key = `${from} ${to}`, since = new Date(from).toISOString(), until = new Date(to).toISOString();
  useEffect(() => {
    const stop = new AbortController();
    fetchEvents(new URLSearchParams({ since, until, tail: "200" }), stop.signal).then((list) => set({ key, list, wrong: "" }))
      .catch((e) => { if (!stop.signal.aborted) set({ key, list: [], wrong: String(e.message ?? e) }); });
    return () => stop.abort();
  }, [key]);
  return <Card title={`Events from ${clock(from)} to ${clock(to)}`} wide more={<span class="buttons"><a href={link("events", [], { q: `since:${since} until:${until}` })}>filter the events</a><a href={here(route, { from: "", to: "" })}>close</a></span>}>
    {got.key !== key ? <p class="none loading">Loading{"\u2026"}</p> : got.wrong ? <p class="bad" role="alert"><Text>{got.wrong}</Text></p> : <EventList events={[...got.list].reverse()} route={route} />}
    {got.list.length === 200 && <p class="dim">The last 200 of them.</p>}
  </Card>;
}
