import { Act, actions } from "../actions";
import { gaps, Lanes } from "../lanes";
import { Card, Choice, Facts, Host, Table, Text } from "../parts";
import { here, link, type Route } from "../route";
import { get } from "../store";
import { age, clock, many, when } from "../text";

const windows: [string, number][] = [["15m", 0.25], ["1h", 1], ["6h", 6], ["1d", 24], ["7d", 168], ["all", 0]];

export function LeasePage({ route }: { route: Route }) {
  const l = get.lease(), terms = get.terms(), now = Date.now();
  const chosen = route.query.get("span") ?? "1h", hours = windows.find(([n]) => n === chosen)?.[1] ?? 1;
  const silent = new Set(terms.filter((t) => t.cause === "expired").map((t) => t.term));
  const gap = new Map(gaps(terms).map((g) => [g.term, g.to - g.from]));
  return <div class="grid">
    <Card title="Lease" wide more={l?.holder && <Act of={actions.stepDown(l.holder)} />}>
      {l && <Facts of={[
        ["holder", <Host node={l.holder} route={route} />], ["term", l.term], ["mode", l.mode], ["profile", l.profile],
        ["renewed", l.renewed_seconds == null ? "-" : age(l.renewed_seconds) + " ago"],
        ["guard ends", l.expires_seconds == null ? "-" : "in " + age(l.expires_seconds)],
        ["held for", age(l.tenure_seconds)],
        ["voters", <Text>{l.config.voters.join(", ")}</Text>], ["publishes", <Host node={l.publisher} route={route} />],
        ["why", l.publish_why || "-"],
        ...(l.blocked ? [["does not stand", <Text>{l.blocked}</Text>] as [string, any]] : []),
      ]} />}
    </Card>
    <Card title="Who held it" wide more={<Choice label="span of time" now={chosen} of={windows.map(([n]) => [n, here(route, { span: n })])} />}>
      <Lanes hours={hours} />
      <p class="legend"><span><span class="key bar-key" /> a term</span> <span><span class="key now-key" /> the present one</span> <span><span class="key gap-key" /> no holder</span> <span><span class="key cut-key" /> ran out: its holder said nothing of the end</span></p>
    </Card>
    <Card title="Terms" wide>
      <Table label="terms" rows={terms.slice(0, 200)} keyOf={(t) => String(t.term)} none="No term is in the log yet." current={(t) => !t.ended_at && t.term === l?.term} columns={[
        { head: "term", cell: (t) => <a href={link("events", [], { q: `term:${t.term}` })}>{t.term}</a> },
        { head: "holder", cell: (t) => <Host node={t.holder} route={route} /> },
        { head: "from", cell: (t) => clock(when(t.started_at)) },
        { head: "to", cell: (t) => (t.ended_at ? clock(when(t.ended_at)) : t.term === l?.term ? "now" : "not known") },
        { head: "held", right: true, low: true, cell: (t) => (t.ended_at || t.term === l?.term ? age(((when(t.ended_at) || now) - when(t.started_at)) / 1000) : "-") },
        { head: "ended", cell: (t) => <><Text>{t.cause || "-"}</Text>{t.successor && <>, then <Host node={t.successor} route={route} /></>}</> },
        { head: "gap before", right: true, cell: (t) => { const g = gap.get(t.term); return g ? <span class="bad">{g < 1000 ? g + "ms" : age(g / 1000)}</span> : silent.has(t.term - 1) ? "not known" : "-"; } },
        { head: "granted by", low: true, cell: (t) => <><Text>{t.grants.join(", ")}</Text> <span class="dim">of {many(t.voters.length, "voter")}</span></> },
      ]} />
      {terms.length > 200 && <p class="dim">The newest 200 of {terms.length}.</p>}
    </Card>
  </div>;
}
