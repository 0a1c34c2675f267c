import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { arrange, kindOf, type Picture, type Point } from "../layout";
import { Card, Choice, healthOf, Host, State, still, Table, Text, useWidth, Untold } from "../parts";
import { go, here, type Route } from "../route";
import { get, looksBack } from "../store";
import { age, bytes, clean, count, many, millis, when } from "../text";
import type { Lease, Link, Member } from "../types";
import { memberColumns } from "./overview";

const mostEdges = 400;

export function NetworkPage({ route }: { route: Route }) {
  const members = get.members(), links = get.links(), l = get.lease();
  const view = route.query.get("view") ?? "graph", chosen = route.query.get("host") ?? "";
  const views = ["graph", "matrix", "links", "hosts"];
  return <div class="grid"><Card title="Network" wide more={<Choice label="view" now={view} of={views.map((v) => [v, here(route, { view: v })])} />}>
    {members.length === 0 ? <p class="none">Waiting for the first picture.</p>
      : looksBack() && (view === "matrix" || view === "links") ? <Untold title="Links" />
      : view === "matrix" ? <Matrix members={members} links={links} />
      : view === "links" ? <Links links={[...links.values()]} chosen={chosen} route={route} />
      : view === "hosts" ? <Table label="hosts" columns={memberColumns(route)} rows={members} keyOf={(m) => m.node} none="" current={(m) => m.node === l?.holder} />
      : <Graph members={members} links={links} lease={l} chosen={chosen} route={route} />}
  </Card></div>;
}

function Graph({ members, links, lease, chosen, route }: { members: Member[]; links: Map<string, Link>; lease: Lease | null; chosen: string; route: Route }) {
  const [ref, width] = useWidth();
  const [over, hover] = useState("");
  // While the pointer goes from host to host only what that changes is drawn: lists and maps are others when something else has changed.
  const near = over || chosen, p = useMemo(() => arrange(members, links, width), [members, links, width]);
  const walk = (e: JSX.TargetedKeyboardEvent<SVGSVGElement>) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!step) return;
    const all = [...e.currentTarget.querySelectorAll<SVGAElement>("a.node")], i = all.indexOf(document.activeElement as unknown as SVGAElement);
    e.preventDefault();
    all[(i + step + all.length) % all.length]?.focus();
  };
  const edges = useMemo(() => (p.ring ? ringEdges(members, links) : exceptions(links, near)), [p, p.ring || near]);
  const shown = edges.slice(0, mostEdges);
  const order = useMemo(() => (p.ring ? members : [...members].sort((a, b) => rank(b, lease) - rank(a, lease)))
    .map((m): [Member, string] => [m, here(route, { host: chosen === m.node ? "" : m.node })]), [p, lease, route, chosen]);
  const label = `${many(members.length, "host")}, ${lease?.holder ? clean(lease.holder) + " holds the lease" : "nobody holds the lease"}; the table of links says the same in words`;
  return <>
    <div ref={ref}><svg class="graph" width={p.width} height={p.height} role="group" aria-label={label} onKeyDown={walk}>
      {p.zones.map((z) => <circle key={z.name} cx={z.at.x} cy={z.at.y} r={z.r} class="zone" />)}
      {!p.ring && <Bands p={p} links={links} />}
      {shown.map(([a, b]) => <Edge key={a + ">" + b} a={a} b={b} p={p} links={links} dim={near !== "" && near !== a && near !== b} />)}
      {p.labels.map((t, i) => <text key={i} x={t.at.x} y={t.at.y} text-anchor="middle" class="island">{clean(t.text, 40)}</text>)}
      {order.map(([m, to]) => <Node key={m.node} m={m} p={p} lease={lease} chosen={chosen === m.node} named={p.ring || members.length <= 64 || rank(m, lease) > 0 || near === m.node} to={to} hover={hover} />)}
    </svg></div>
    <p class="legend">
      {!looksBack() && <><Key kind="up" text="up" /> <Key kind="old" text="no handshake for 3 minutes" /> <Key kind="onion" text="over onion" /> <Key kind="suspect" text="suspect" /> <Key kind="down" text="down" /> <Key kind="unknown" text="not known" /></>}
      <span><svg width="22" height="14" aria-hidden="true"><Crown x={11} y={12} /></svg> lease</span>
      <span><svg width="18" height="16" aria-hidden="true"><circle cx="9" cy="8" r="7" class="voter" /></svg> votes</span>
      <span><svg width="16" height="16" aria-hidden="true"><Flag x={4} y={14} /></svg> publishes</span>
    </p>
    <p class="dim">{looksBack() ? "" : p.ring ? "Each half of a line is what the host at its end knows of the other." : `Of ${many(members.length, "host")} only what is not up is drawn, and the links of the host that is chosen; a band stands for each pair of zones.`}
      {edges.length > shown.length && <> +{edges.length - shown.length} in the <a href={here(route, { view: "links" })}>table</a>.</>}</p>
  </>;
}

function rank(m: Member, l: Lease | null): number {
  return m.node === l?.holder ? 3 : m.state !== "alive" ? 2 : m.self || m.publisher ? 1 : 0;
}

function Key({ kind, text }: { kind: string; text: string }) {
  return <span><svg width="26" height="8" aria-hidden="true"><line x1="1" x2="25" y1="4" y2="4" class={"half " + kind} stroke-width="3" /></svg> {text}</span>;
}

function ringEdges(members: Member[], links: Map<string, Link>): [string, string][] {
  const out: [string, string][] = [];
  for (const a of members) for (const b of members) {
    if (a.node < b.node && (links.has(`${a.node}>${b.node}`) || links.has(`${b.node}>${a.node}`))) out.push([a.node, b.node]);
  }
  return out;
}

function exceptions(links: Map<string, Link>, near: string): [string, string][] {
  const out = new Map<string, [string, string]>();
  for (const l of links.values()) {
    const kind = kindOf(l);
    if (kind === "up" && l.from !== near && l.to !== near) continue;
    if (kind === "unknown" && l.from !== near && l.to !== near) continue;
    const [a, b] = l.from < l.to ? [l.from, l.to] : [l.to, l.from];
    out.set(a + ">" + b, [a!, b!]);
  }
  return [...out.values()];
}

/** Bands join zones: as wide as the hosts on both sides, marked where something is wrong. */
const Bands = still(({ p, links }: { p: Picture; links: Map<string, Link> }) => {
  const of = new Map(p.zones.flatMap((z) => z.nodes.map((n) => [n, z.name] as const))), wrong = new Map<string, number>();
  for (const l of links.values()) {
    const a = of.get(l.from), b = of.get(l.to);
    if (a === undefined || b === undefined || a === b || kindOf(l) === "up") continue;
    const k = [a, b].sort().join("\n");
    wrong.set(k, (wrong.get(k) ?? 0) + 1);
  }
  return <>{p.zones.flatMap((a, i) => p.zones.slice(i + 1).map((b) => {
    const n = wrong.get([a.name, b.name].sort().join("\n")) ?? 0;
    return <line key={a.name + "\n" + b.name} x1={a.at.x} y1={a.at.y} x2={b.at.x} y2={b.at.y} class={"band" + (n ? " wrong" : "")} stroke-width={Math.min(26, 3 + Math.sqrt(a.nodes.length * b.nodes.length) / 3)}>
      <title>{`${clean(a.name) || "no zone"} and ${clean(b.name) || "no zone"}: ${n ? n + (n === 1 ? " half" : " halves") + " not up" : "all up"}`}</title></line>;
  }))}</>;
});

const Edge = still(({ a, b, p, links, dim }: { a: string; b: string; p: Picture; links: Map<string, Link>; dim: boolean }) => {
  const from = p.at.get(a), to = p.at.get(b);
  if (!from || !to) return null;
  const mid = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  return <g class={dim ? "edge dimmed" : "edge"}>
    <Half l={links.get(`${a}>${b}`)} from={from} to={mid} a={a} b={b} />
    <Half l={links.get(`${b}>${a}`)} from={to} to={mid} a={b} b={a} /></g>;
});

function Half({ l, from, to, a, b }: { l: Link | undefined; from: Point; to: Point; a: string; b: string }) {
  const rate = (l?.receive_bytes_per_second ?? 0) + (l?.transmit_bytes_per_second ?? 0), kind = kindOf(l);
  const wide = kind === "unknown" ? 1 : Math.min(8, 2 + Math.log10(1 + Math.max(0, rate)) / 2);
  return <line x1={from.x} y1={from.y} x2={to.x} y2={to.y} class={"half " + kind} stroke-width={wide}><title>{words(l, a, b)}</title></line>;
}

function words(l: Link | undefined, a: string, b: string): string {
  if (!l || l.state === "unknown") return `${clean(a, 40)} has not said how it sees ${clean(b, 40)}${l?.reported_at ? `, last ${age((Date.now() - when(l.reported_at)) / 1000)} ago` : ""}`;
  return `${clean(a, 40)} sees ${clean(b, 40)}: ${clean(healthOf(l.state, l.stopped), 20)}${l.path ? ", " + clean(l.path, 20) : ""}, handshake ${age(l.handshake_seconds)} ago, rtt ${millis(l.rtt_seconds)}`;
}

function Crown({ x, y }: Point) {
  return <path class="crown" d={`M${x - 9} ${y}v-9l5 4 4-7 4 7 5-4v9z`} />;
}

function Flag({ x, y }: Point) {
  return <g class="flag"><line x1={x} x2={x} y1={y} y2={y - 13} /><path d={`M${x} ${y - 13}h10l-3 3.5 3 3.5h-10z`} /></g>;
}

const marks: Record<string, string> = { alive: "", suspect: "!", dead: "\u2715", stopped: "\u25A0", joining: "\u2026", left: "\u2212" };

const Node = still(({ m, p, lease, chosen, named, to, hover }: {
  m: Member; p: Picture; lease: Lease | null; chosen: boolean; named: boolean; to: string; hover: (n: string) => void;
}) => {
  const at = p.at.get(m.node), big = p.ring;
  if (!at) return null;
  const holds = lease?.holder === m.node, r = big ? 19 : holds ? 8 : 5, { x, y } = at;
  const label = [clean(m.node, 60), healthOf(m.state, m.stopped), holds && `holds the lease of term ${lease?.term}`, m.publisher && m.state === "alive" && "publishes", m.voter && "votes", m.self && "the page asks it",
    !m.self && m.state !== "alive" && `seen ${age(m.seen_seconds)} ago`].filter(Boolean).join(", ");
  const state = m.stopped ? "stopped" : ["alive", "suspect", "dead", "joining", "left"].includes(m.state) ? m.state : "unknown";
  return <><a class={"node " + state + (chosen ? " chosen" : "")} href={to} aria-label={label} data-node={m.node}
    onMouseEnter={() => hover(m.node)} onMouseLeave={() => hover("")} onFocus={() => hover(m.node)} onBlur={() => hover("")}>
    <title>{label}</title>
    {m.voter && big && <circle cx={x} cy={y} r={r + 5} class="voter" />}
    {m.witness ? <rect x={x - r} y={y - r} width={2 * r} height={2 * r} class="dot" /> : <circle cx={x} cy={y} r={r} class="dot" />}
    {(big || state !== "alive") && <text x={x} y={y + (big ? 6 : 4)} text-anchor="middle" class={big ? "mark" : "mark small"}>{marks[state] ?? "?"}</text>}
    {big && m.self && state === "alive" && <circle cx={x} cy={y} r={4} class="self" />}
    {m.publisher && big && state === "alive" && <Flag x={x + r - 1} y={y - r + 8} />}
  </a>
    {named && <g class="node" aria-hidden="true"><text x={x} y={y + r + (big ? 20 : 13)} text-anchor="middle" class={big ? "name" : "name small"}>{clean(m.node, 16)}</text></g>}
    {holds && <g data-crown={m.node} aria-hidden="true"><Crown x={x} y={y - r - (big ? 8 : 3)} />{big && <text x={x + 13} y={y - r - 9} class="note">{"term " + lease?.term}</text>}</g>}
    {big && !m.self && m.state !== "alive" && <text x={x} y={y + r + 35} text-anchor="middle" class="note" aria-hidden="true">{clean(healthOf(m.state, m.stopped), 20)} {age(m.seen_seconds)}</text>}
  </>;
});

function Links({ links, chosen, route }: { links: Link[]; chosen: string; route: Route }) {
  const order = ["down", "suspect", "old", "onion", "unknown", "up"];
  const rows = links.filter((l) => !chosen || l.from === chosen || l.to === chosen)
    .sort((a, b) => order.indexOf(kindOf(a)) - order.indexOf(kindOf(b)) || (a.from + ">" + a.to < b.from + ">" + b.to ? -1 : 1));
  return <>
    {chosen && <p>Links of <Text>{chosen}</Text>. <a href={here(route, { host: "" })}>All links</a></p>}
    <Table label="links" rows={rows.slice(0, 500)} keyOf={(l) => `${l.from}>${l.to}`} none="No link is known." columns={[
      { head: "from", cell: (l) => <Host node={l.from} route={route} /> }, { head: "to", cell: (l) => <Host node={l.to} route={route} /> },
      { head: "sees it", cell: (l) => <State of={healthOf(l.state, l.stopped)} /> }, { head: "path", low: true, cell: (l) => (l.state === "alive" && l.path) || "-" },
      { head: "handshake", low: true, right: true, cell: (l) => age(l.handshake_seconds) }, { head: "rtt", right: true, cell: (l) => (l.state === "alive" ? millis(l.rtt_seconds) : "-") },
      { head: "receives", right: true, low: true, cell: (l) => bytes(l.receive_bytes_per_second) + (l.receive_bytes_per_second == null ? "" : "/s") },
      { head: "sends", right: true, low: true, cell: (l) => bytes(l.transmit_bytes_per_second) + (l.transmit_bytes_per_second == null ? "" : "/s") },
      { head: "said", right: true, low: true, cell: (l) => (l.reported_at ? age((Date.now() - when(l.reported_at)) / 1000) + " ago" : "never") },
    ]} />
    {rows.length > 500 && <p class="dim">The first 500 of {count(rows.length)}, what is not up before the rest.</p>}
  </>;
}

function Matrix({ members, links }: { members: Member[]; links: Map<string, Link> }) {
  if (members.length > 64) return <p class="none">A matrix is for up to 64 hosts; this cluster has {members.length}. The links have what is not up.</p>;
  const open = (from: string) => go("#/network?view=links&host=" + encodeURIComponent(from));
  return <><p class="dim">Round trip in milliseconds, as the host of the row measures it.</p>
    <div class="scroll" tabIndex={0} role="region" aria-label="matrix of round trips"><table class="matrix">
      <thead><tr><th scope="col">from \ to</th>{members.map((m) => <th key={m.node} scope="col"><Text most={12}>{m.node}</Text></th>)}</tr></thead>
      <tbody>{members.map((a) => <tr key={a.node}><th scope="row" onClick={() => open(a.node)}><Text most={20}>{a.node}</Text></th>{members.map((b) => {
        const l = links.get(`${a.node}>${b.node}`), kind = kindOf(l);
        if (a.node === b.node) return <td key={b.node} class="self" />;
        return <td key={b.node} class={"cell " + kind} title={words(l, a.node, b.node)}>{kind === "unknown" ? "?" : kind === "down" ? (l?.stopped ? marks.stopped : marks.dead) : kind === "suspect" ? "!" : l?.rtt_seconds == null ? "-" : (l.rtt_seconds * 1000).toFixed(1)}</td>;
      })}</tr>)}</tbody></table></div></>;
}
