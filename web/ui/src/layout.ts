// Where hosts stand in the picture: by name, zone and island only, so that the same
// cluster always looks the same.
import type { Link, Member } from "./types";

export interface Point { x: number; y: number }
export interface Island { nodes: string[]; reached: boolean }
export interface Zone { name: string; at: Point; r: number; nodes: string[] }
export interface Picture { at: Map<string, Point>; zones: Zone[]; labels: { text: string; at: Point }[]; ring: boolean; width: number; height: number }

/** ringMost is up to how many hosts each edge is drawn. */
export const ringMost = 24;

/** kind of a half-edge: what its host knows of the other. */
export function kindOf(l: Link | undefined): "up" | "old" | "onion" | "suspect" | "down" | "unknown" {
  if (!l || l.state === "unknown") return "unknown";
  if (l.state === "suspect") return "suspect";
  if (l.state !== "alive") return "down";
  if (l.path === "onion") return "onion";
  return l.handshake_seconds == null || l.handshake_seconds > 180 ? "old" : "up";
}

const up = (l: Link | undefined) => l?.state === "alive" || l?.state === "suspect";

/** islands are hosts that reach each other, by what they or the other say; that of self
 * first. Hosts that nobody here knows anything of stand together. */
export function islands(members: Member[], links: Map<string, Link>): Island[] {
  const names = members.map((m) => m.node), self = members.find((m) => m.self)?.node ?? names[0];
  const many = members.length > 64; // then only exceptions are told
  const state = new Map(members.map((m) => [m.node, m.state]));
  const lost = (n: string) => n !== self && state.get(n) !== "alive" && state.get(n) !== "joining";
  const joined = (a: string, b: string) => {
    const x = links.get(`${a}>${b}`), y = links.get(`${b}>${a}`);
    if (!x && !y) return many ? !lost(a) && !lost(b) : lost(a) === lost(b);
    if (kindOf(x) === "unknown" && kindOf(y) === "unknown") return lost(a) === lost(b);
    // Somebody's last word of before it was cut off holds no bridge.
    const says = [lost(a) ? undefined : x, lost(b) ? undefined : y].filter((l) => l && l.state !== "unknown");
    return says.length ? says.some(up) && !(lost(a) !== lost(b) && says.every((l) => l?.state !== "alive")) : lost(a) === lost(b);
  };
  const left = new Set(names), out: Island[] = [];
  for (const start of [self, ...names]) {
    if (start === undefined || !left.delete(start)) continue;
    const nodes = [start];
    for (let i = 0; i < nodes.length; i++) for (const n of [...left]) if (joined(nodes[i]!, n)) { left.delete(n); nodes.push(n); }
    out.push({ nodes: nodes.sort(), reached: out.length === 0 });
  }
  return out;
}

/** arrange places hosts: a ring for each island, or a disc for each zone of many hosts. */
export function arrange(members: Member[], links: Map<string, Link>, width: number): Picture {
  const zone = new Map(members.map((m) => [m.node, m.zone]));
  if (members.length > ringMost) return discs(members, width);
  const parts = islands(members, links), at = new Map<string, Point>(), labels: Picture["labels"] = [];
  const narrow = width < 560, main = parts[0]?.nodes.length ?? 0, others = parts.slice(1);
  const radius = Math.max(62, Math.min(width / 2 - 60, 80 + main * 10, 220)), deep = main === 1 ? 0 : radius;
  const room = others.length && !narrow ? width * 0.62 : width, height0 = 2 * deep + (main > 2 ? 130 : 150);
  const rings = [{ nodes: parts[0]?.nodes ?? [], c: { x: room / 2, y: 75 + Math.max(0, deep - 9) }, r: deep }];
  let y = narrow ? height0 : 30, height = height0;
  for (const { nodes } of others) {
    const r = nodes.length === 1 ? 0 : Math.min(radius, 40 + nodes.length * 9), x = narrow ? width / 2 : width * 0.81;
    labels.push({ text: "not reached", at: { x, y: y + 12 } });
    rings.push({ nodes, c: { x, y: y + 75 + r }, r });
    y += 2 * r + 160;
    height = Math.max(height, y);
  }
  // The islands are turned until no host hides a line between two of them; of many some always do.
  let best = -1;
  for (let turn = 0; best < 45 && turn < 3; turn += 0.125) {
    const to = new Map<string, Point>();
    for (const o of rings) ring(o.nodes, zone, o.c, o.r, to, turn);
    const free = others.length ? clearance(parts, to) : Infinity;
    if (free > best) { best = free; to.forEach((p, n) => at.set(n, p)); }
  }
  return { at, zones: [], labels, ring: true, width, height };
}

function ring(nodes: string[], zone: Map<string, string>, c: Point, r: number, at: Map<string, Point>, turned: number): void {
  const order = [...nodes].sort((a, b) => key(zone.get(a)) .localeCompare(key(zone.get(b))) || (a < b ? -1 : 1));
  order.forEach((n, i) => {
    const turn = (i / order.length) * 2 * Math.PI - Math.PI / 2 + turned;
    at.set(n, { x: c.x + r * Math.cos(turn), y: c.y + r * Math.sin(turn) });
  });
}

/** clearance is how far the nearest host is from a line between two others of different islands. */
function clearance(parts: Island[], at: Map<string, Point>): number {
  let least = 1e9;
  parts.forEach((p, i) => parts.slice(i + 1).forEach((o) => p.nodes.forEach((a) => o.nodes.forEach((b) => at.forEach((c, n) => {
    const u = at.get(a)!, v = at.get(b)!, dx = v.x - u.x, dy = v.y - u.y, t = ((c.x - u.x) * dx + (c.y - u.y) * dy) / (dx * dx + dy * dy);
    if (n !== a && n !== b && t > 0 && t < 1) least = Math.min(least, Math.hypot(u.x + t * dx - c.x, u.y + t * dy - c.y));
  })))));
  return least;
}

const key = (s: string | undefined) => s ?? "";

function discs(members: Member[], width: number): Picture {
  const by = new Map<string, string[]>();
  for (const m of members) by.set(m.zone, [...(by.get(m.zone) ?? []), m.node]);
  const names = [...by.keys()].sort(), at = new Map<string, Point>(), zones: Zone[] = [], labels: Picture["labels"] = [];
  const radiusOf = (n: number) => 18 + 9 * Math.sqrt(n);
  const biggest = Math.max(...names.map((z) => radiusOf(by.get(z)!.length)));
  const around = names.length === 1 ? 0 : Math.max((biggest + 14) / Math.sin(Math.PI / names.length), biggest);
  const whole = around + biggest + 24, scale = Math.min(1.4, (width / 2 - 8) / whole);
  const height = names.length === 2 ? 2 * (biggest + 34) * scale : 2 * whole * scale, c = { x: width / 2, y: height / 2 };
  names.forEach((z, i) => {
    const turn = (i / names.length) * 2 * Math.PI + (names.length === 2 ? 0 : -Math.PI / 2), nodes = by.get(z)!.sort();
    const middle = { x: c.x + around * scale * Math.cos(turn), y: c.y + around * scale * Math.sin(turn) }, r = radiusOf(nodes.length) * scale;
    zones.push({ name: z, at: middle, r, nodes });
    labels.push({ text: `${z || "no zone"} \u00B7 ${nodes.length}`, at: { x: middle.x, y: middle.y - r - 6 } });
    nodes.forEach((n, k) => { // a sunflower: even, whatever the number
      const d = (r - 8) * Math.sqrt((k + 0.5) / nodes.length), t = k * 2.399963;
      at.set(n, { x: middle.x + d * Math.cos(t), y: middle.y + d * Math.sin(t) });
    });
  });
  return { at, zones, labels, ring: false, width, height };
}
