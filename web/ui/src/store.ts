// What the page knows: the rows of each topic, the log, and how the stream is. One
// watch feeds it; whoever shows it is told at most ten times a second.

import { useEffect, useState } from "preact/hooks";
import { ask, readLines } from "./session";
import type { Entry, Job, Lease, Link, Member, Onion, Problem, Run, Status, Term, Worker } from "./types";

const wanted = ["status", "members", "links", "lease", "terms", "workers", "jobs", "workflows", "onion", "events"];
/** topics are those that the daemon knows */
let topics = wanted;
/** lacks are the topics that a daemon of another version does not tell of. */
export const lacks = () => wanted.filter((t) => t !== "events" && !rows.has(t));
/** what is kept of the log: so many events, of so many characters as they came */
const mostEvents = 100000, mostText = 64e6;

type Row = Record<string, unknown>;

/** as whom the daemon takes this page */
export interface Who { name: string; role: string; rights: Record<"look" | "read" | "use" | "operate", "all" | "own" | "none"> }

export interface Hello { node: string; cluster: string; boot: string; may_change: boolean }

const rows = new Map<string, Map<string, Row>>();
let events: Entry[] = []; // as the log has them, oldest first
const known = new Map<string, number>(); // those, with their length
let text = 0;

export const state = {
  hello: null as Hello | null,
  who: null as Who | null,
  /** connecting, live, stale (trying again), ended (for good) or locked (without a bearer) */
  stream: "connecting" as "connecting" | "live" | "stale" | "ended" | "locked",
  problem: null as Problem | null,
  heardAt: Date.now(),
  synced: false,
  /** counts what was received, for tests and for whoever draws only what changed */
  seen: 0,
};

/** Past is what the log said as of a moment, which is shown in the place of what is. */
export interface Past { at: number; rows: Map<string, Map<string, Row>>; events: Entry[] }

let past: Past | null = null;
export const looksBack = () => past;
export function showPast(p: Past | null): void { past = p; changed(); }
/** now is the moment that is shown. */
export const now = () => past?.at ?? Date.now();
const shown = () => past?.rows ?? rows;
/** termsOfNow are all terms, also those after the moment that is shown. */
export const termsOfNow = () => [...(rows.get("terms")?.values() ?? [])] as unknown as Term[];

const watchers = new Set<() => void>();
let due = false, drawnAt = 0;

/** learn asks who this is; a daemon that does not know has the page ask for each action. */
export async function learn(): Promise<void> {
  const r = await ask("/v1/whoami").catch(() => null);
  const who = r?.ok ? await r.json().catch(() => null) : null;
  if (who?.rights) state.who = who;
  changed();
}

export function changed(): void {
  if (due) return;
  due = true;
  setTimeout(() => { due = false; drawnAt = Date.now(); for (const w of watchers) w(); }, Math.min(100, drawnAt + 100 - Date.now()));
}

/** useStore draws a component anew when something has changed, and each second for what ages. */
export function useStore(): void {
  const [, tick] = useState(0);
  useEffect(() => {
    const f = () => tick((n) => n + 1);
    watchers.add(f);
    const timer = setInterval(f, 1000);
    return () => { watchers.delete(f); clearInterval(timer); };
  }, []);
}

function all<T>(topic: string): T[] {
  return [...(shown().get(topic)?.values() ?? [])] as unknown as T[];
}

function one<T>(topic: string): T | null {
  return all<T>(topic)[0] ?? null;
}

const byNode = <T extends { node: string }>(list: T[]) => list.sort((a, b) => (a.node < b.node ? -1 : 1));

export const get = {
  status: () => one<Status>("status"),
  lease: () => one<Lease>("lease"),
  onion: () => one<Onion>("onion"),
  members: () => byNode(all<Member>("members")),
  member: (node: string) => all<Member>("members").find((m) => m.node === node),
  links: () => [...shown()].filter(([t]) => t === "links" || t.startsWith("links/"))
    .flatMap(([, m]) => [...m]).reduce((m, [k, v]) => m.set(k, v as unknown as Link), new Map<string, Link>()),
  terms: () => all<Term>("terms").sort((a, b) => b.term - a.term),
  workers: () => byNode(all<Worker>("workers")),
  jobs: () => all<Job>("jobs").sort((a, b) => (a.submitted_at < b.submitted_at ? 1 : -1)),
  job: (id: string) => [...shown()].filter(([t]) => t.startsWith("job/")).flatMap(([, m]) => [...m.values()] as unknown as Job[])
    .find((j) => j.id === id || j.id.startsWith(id) || j.name === id),
  runs: () => all<Run>("workflows").sort((a, b) => (a.submitted_at < b.submitted_at ? 1 : -1)),
  run: (id: string) => [...shown()].filter(([t]) => t.startsWith("workflow/")).flatMap(([, m]) => [...m.values()] as unknown as Run[])
    .find((r) => r.id === id || r.id.startsWith(id) || r.name === id),
  events: () => past?.events ?? events,
  /** what a job is called */
  nameOf: (id: string) => (shown().get("jobs")?.get(id)?.name as string | undefined) || id,
};

function keyOf(topic: string, r: Row): string {
  switch (topic.split("/")[0]) {
    case "members": case "workers": return String(r.node);
    case "links": return `${r.from}>${r.to}`;
    case "terms": return String(r.term);
    case "jobs": case "job": case "workflows": case "workflow": return String(r.id);
  }
  return topic;
}

export const eventKey = (e: Entry) => `${e.source.node}/${e.source.inc}:${e.seq}`;

/** has says whether the page knows an event. */
export const has = (e: Entry) => known.has(eventKey(e));

const inOrder = (a: Entry, b: Entry) => a.hlc - b.hlc || (eventKey(a) < eventKey(b) ? -1 : 1);

/** add takes events in, each once; they stay in the order of the cluster's clock. Size is the length of all. */
export function add(list: Entry[], size: number): void {
  const fresh = list.filter((e) => e?.source && !known.has(eventKey(e))).sort(inOrder), each = size / list.length;
  if (fresh.length === 0) return;
  for (const e of fresh) { known.set(eventKey(e), each); text += each; }
  const late = events.length > 0 && fresh[0]!.hlc < events[events.length - 1]!.hlc;
  events = events.concat(fresh);
  if (late) events.sort(inOrder);
  if (events.length <= mostEvents && text <= mostText) return;
  let n = 0; // a tenth more than must go, so that this is rare
  for (; n < events.length - 1 && (events.length - n > 0.9 * mostEvents || text > 0.9 * mostText); n++) {
    const k = eventKey(events[n]!);
    text -= known.get(k) ?? 0;
    known.delete(k);
  }
  events = events.slice(n);
}

/** fetchEvents reads events that the stream did not bring. */
export async function fetchEvents(q: URLSearchParams, signal?: AbortSignal): Promise<Entry[]> {
  const r = await ask("/v1/events?" + q, { signal: signal ?? AbortSignal.timeout(20000) });
  if (!r.ok) throw new Error((await r.json().catch(() => null))?.detail ?? `refused (${r.status})`);
  const out: Entry[] = [];
  await readLines(r, () => {}, (line) => {
    const v = JSON.parse(line);
    if (v.problem) throw new Error(v.problem.detail);
    if (v.source && v.kind) out.push(v);
  });
  return out;
}

interface Message { id?: string; event: string; data: any } // eslint-disable-line

/** parts of a snapshot, until its last */
const parts = new Map<string, Row[]>();
let place = "", cursor = "";

export function take(m: Message, size = 0): void {
  const d = m.data ?? {};
  state.seen++;
  if (m.id) { const [p = "", ...c] = m.id.split(";"); place = p; if (c.length) cursor = c.join(";") || cursor; }
  switch (m.event) {
    case "hello":
      state.hello = d; parts.clear();
      break;
    case "snapshot": {
      const got = (parts.get(d.topic) ?? []).concat(d.rows ?? []);
      if (!d.last) { parts.set(d.topic, got); break; }
      parts.delete(d.topic);
      rows.set(d.topic, new Map(got.map((r) => [keyOf(d.topic, r), r])));
      break;
    }
    case "synced":
      state.synced = true;
      break;
    case "delta": {
      const t = rows.get(d.topic) ?? new Map<string, Row>();
      rows.set(d.topic, t);
      for (const r of d.set ?? []) t.set(keyOf(d.topic, r), r);
      for (const k of d.del ?? []) t.delete(String(k));
      break;
    }
    case "gauges":
      gauges(d.topic, d.keys ?? [], d.cols ?? {});
      break;
    case "log":
      add(d.events ?? [], size);
      if (typeof d.cursor === "string") cursor = d.cursor;
      break;
    case "bye":
      throw new Bye(d.problem ?? null, d.retry_after_seconds ?? null);
  }
  changed();
}

function gauges(topic: string, keys: string[], cols: Record<string, unknown[]>): void {
  const t = rows.get(topic);
  if (!t) return;
  keys.forEach((key, i) => {
    const r = t.get(key);
    if (!r) return;
    for (const [name, values] of Object.entries(cols)) {
      const [first = "", rest] = name.split(/\.(.*)/s);
      if (rest === undefined) { r[first] = values[i]; continue; }
      const inner = r[first];
      if (inner && typeof inner === "object" && !["__proto__", "constructor"].includes(rest)) (inner as Row)[rest] = values[i];
    }
  });
}

class Bye extends Error {
  constructor(readonly problem: Problem | null, readonly after: number | null) { super("bye"); }
}

/** what is watched beside the topics */
let extra = { job: "", link: "", workflow: "" };
let current: AbortController | null = null;
let wake: (() => void) | null = null;
let paused = false;

/** watchAlso has the stream tell one job, all links of one host, and one run of a workflow. */
export function watchAlso(job: string, link: string, workflow: string): void {
  if (extra.job === job && extra.link === link && extra.workflow === workflow) return;
  extra = { job, link, workflow };
  for (const t of [...rows.keys()]) if (t.includes("/")) rows.delete(t);
  current?.abort();
  wake?.();
}

function query(): string {
  const q = new URLSearchParams({ topics: topics.join(",") });
  for (const [name, v] of Object.entries(extra)) if (v) q.append(name, v);
  if (!cursor && !place) q.set("tail", "300");
  return "/v1/watch?" + q;
}

async function once(): Promise<void> {
  const stop = new AbortController();
  current = stop;
  const began = Date.now();
  // A line comes at least every five seconds.
  const silence = setInterval(() => { if (Date.now() - Math.max(began, state.heardAt) > 13000) stop.abort(); }, 1000);
  try {
    const headers: Record<string, string> = place ? { "Last-Event-ID": cursor ? `${place};${cursor}` : place } : {};
    const r = await ask(query(), { signal: stop.signal, headers });
    if (!r.ok) {
      const p = (await r.json().catch(() => null)) as Problem | null;
      if (r.status === 401) { state.stream = "locked"; state.problem = p; return; }
      throw new Bye(p, p?.retry_after_seconds ?? null);
    }
    await readLines(r, () => {
      state.heardAt = Date.now();
      if (state.stream !== "live") { state.stream = "live"; state.problem = null; changed(); }
    }, (line) => take(JSON.parse(line), line.length));
  } finally {
    clearInterval(silence);
  }
}

const pause = (ms: number) => new Promise<void>((done) => {
  const t = setTimeout(done, ms);
  wake = () => { clearTimeout(t); done(); };
});

/** follow reads the watch for as long as the page is open. */
export async function follow(): Promise<void> {
  // Who does not see the page for a while needs no stream, of which a browser has few; it goes on where it was.
  let soon = 0;
  const seen = () => {
    clearTimeout(soon);
    if (document.hidden) soon = setTimeout(() => { paused = true; current?.abort(); }, 30000);
    else if (paused) { paused = false; wake?.(); }
  };
  document.addEventListener("visibilitychange", seen);
  seen();
  for (let failed = 0; ;) {
    while (paused) { await pause(1 << 30); failed = 0; }
    const watched = extra, began = Date.now();
    let after: number | null = null;
    try {
      await once();
    } catch (e) {
      if (e instanceof Bye) {
        state.problem = e.problem;
        after = e.after;
        const unknown = /^topics: "(\w+)" is not/.exec(e.problem?.detail ?? "")?.[1];
        // A job or host that does not exist is not asked for again; the rest goes on.
        if (topics.includes(unknown!)) topics = topics.filter((t) => t !== unknown);
        else if (["not_found", "invalid_request", "conflict"].includes(e.problem?.code ?? "")) {
          if (extra.job || extra.link || extra.workflow) extra = { job: "", link: "", workflow: "" };
          else if (place) place = cursor = "";
          else after = -1;
        } else if (e.after === null && e.problem) after = -1;
      }
    }
    if (state.stream === "locked") { changed(); return; }
    if (after === -1) { state.stream = "ended"; changed(); await pause(1 << 30); after = null; failed = 0; }
    if (paused || watched !== extra) continue; // not seen, or asked for something else
    failed = Date.now() - began > 10000 ? 1 : failed + 1;
    state.stream = "stale";
    changed();
    await pause(Math.max((after ?? 0) * 1000, Math.min(8000, 250 * 2 ** failed)) * (0.75 + Math.random() / 2));
  }
}

/** again has an ended stream begin anew. */
export function again(): void { state.stream = "connecting"; changed(); wake?.(); }
