import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { EventList } from "../eventlist";
import { Badge, BadgeOfAll } from "../badge";
import { Card, Facts, Host, Text } from "../parts";
import { go, link, type Route } from "../route";
import { ask, readLines } from "../session";
import { eventKey, fetchEvents, get, has, looksBack, now } from "../store";
import { clean, clock, hlcTime, lines } from "../text";
import type { Entry, Source } from "../types";

export interface Filter { kinds: string[]; node: string; job: string; terms: [number, number] | null; since: string; until: string; words: string[]; wrong: string[] }

/** parseFilter reads `kind:lease* node:n3 job:j43 term:40-42 since:2h words`. */
export function parseFilter(text: string): Filter {
  const f: Filter = { kinds: [], node: "", job: "", terms: null, since: "", until: "", words: [], wrong: [] };
  for (const part of text.slice(0, 1000).split(/\s+/).filter(Boolean)) {
    const [, key = "", value = ""] = /^(kind|node|job|term|since|until):(.+)$/.exec(part) ?? [];
    const span = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(value);
    if (key === "kind") f.kinds.push(...value.split(",").filter(Boolean));
    else if (key === "node") f.node = value;
    else if (key === "job") f.job = value;
    else if (key === "term" && span) f.terms = [Number(span[1]), Number(span[2] ?? span[1])];
    else if ((key === "since" || key === "until") && moment(value, 0) !== null) f[key] = value;
    else if (/^(kind|node|job|term|since|until):/.test(part)) f.wrong.push(part);
    else f.words.push(part.toLowerCase());
  }
  return f;
}

/** moment is a time, or so long ago. */
function moment(text: string, now: number): number | null {
  const m = /^(\d{1,6})(s|m|h|d)$/.exec(text);
  if (m) return now - Number(m[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[m[2] as "s"]! * 1000;
  const at = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : NaN;
  return Number.isFinite(at) ? at : null;
}

function ofKind(pattern: string): (kind: string) => boolean {
  const parts = pattern.split("*"), first = parts[0]!, last = parts[parts.length - 1]!;
  if (parts.length === 1) return (kind) => kind === pattern;
  return (kind) => {
    if (!kind.startsWith(first) || !kind.endsWith(last)) return false;
    let at = 0;
    for (const p of parts) { const i = kind.indexOf(p, at); if (i < 0) return false; at = i + p.length; }
    return true;
  };
}

/** termOf is the term that an event belongs to, or tells of. */
function termOf(e: Entry): number {
  const b = e.body as Record<string, unknown> | null;
  return e.term || (b && typeof b.term === "number" ? b.term : 0);
}

function names(body: unknown, name: string, deep = 0): boolean {
  if (typeof body === "string") return body === name || body.startsWith(name) && name.length >= 4;
  if (deep > 6 || !body || typeof body !== "object") return false;
  return Object.values(body).some((v) => names(v, name, deep + 1));
}

/** matcher says of an event whether a filter selects it. */
export function matcher(f: Filter, at = now()): (e: Entry) => boolean {
  const since = moment(f.since, at) ?? -Infinity, until = Math.min(moment(f.until, at) ?? Infinity, looksBack() ? at : Infinity), kinds = f.kinds.map(ofKind);
  return (e) => (kinds.length === 0 || kinds.some((k) => k(e.kind)))
    && (!f.node || e.source.node === f.node || names(e.body, f.node))
    && (!f.job || names(e.body, f.job))
    && (!f.terms || (termOf(e) >= f.terms[0] && termOf(e) <= f.terms[1]))
    && !(hlcTime(e.hlc) < since) && !(hlcTime(e.hlc) > until)
    && f.words.every((w) => (e.kind + " " + (e.text ?? "")).toLowerCase().includes(w));
}

/** selected are the events of a filter that the page has: of the stream, and what was read beside it. */
function selected(f: Filter, stream: Entry[], beside: Entry[]): Entry[] {
  const ok = matcher(f), there = looksBack() ? new Set(stream.map(eventKey)) : null, more = new Map<string, Entry>();
  for (const e of beside) if (!(there ? there.has(eventKey(e)) : has(e)) && ok(e)) more.set(eventKey(e), e);
  const list = stream.filter(ok);
  return more.size === 0 ? list : [...more.values(), ...list].sort((a, b) => a.hlc - b.hlc);
}

/** asked is the part of a filter that the daemon applies. */
function asked(f: Filter): URLSearchParams {
  const q = new URLSearchParams();
  if (f.kinds.length) q.set("kind", f.kinds.join(","));
  if (f.job) q.set("entity", "job:" + f.job);
  else if (f.node) q.set("entity", "node:" + f.node);
  else if (f.terms && f.terms[0] === f.terms[1]) q.set("entity", "term:" + f.terms[0]);
  for (const key of ["since", "until"] as const) if (f[key]) q.set(key, new Date(moment(f[key], now())!).toISOString());
  if (looksBack()) q.set("until", new Date(Math.min(now(), moment(f.until, now()) ?? Infinity) + 1).toISOString());
  return q;
}

/** command is what prints the same at a terminal; of what it cannot, beside tells. */
export function command(f: Filter): { line: string; beside: string } {
  const parts = ["skein events --all -o jsonl"], beside = f.words.map((w) => `"${w}"`);
  if (f.kinds.length) parts.push(`--kind '${f.kinds.join(",")}'`);
  if (f.job) parts.push(`--entity job:${f.job}`);
  else if (f.node) parts.push(`--entity node:${f.node}`);
  else if (f.terms && f.terms[0] === f.terms[1]) parts.push(`--entity term:${f.terms[0]}`);
  if (f.job && f.node) beside.unshift("node:" + f.node);
  if (f.terms && (f.job || f.node || f.terms[0] !== f.terms[1])) beside.unshift(`term:${f.terms[0]}-${f.terms[1]}`);
  for (const key of ["since", "until"] as const) if (f[key]) parts.push(`--${key} ${f[key]}`);
  return { line: parts.join(" "), beside: beside.join(" ") };
}

/** own is the part of a filter that the daemon does not apply. */
function own(f: Filter): Filter {
  const one = f.terms !== null && f.terms[0] === f.terms[1];
  return { ...f, kinds: [], job: "", since: "", until: "", node: f.job ? f.node : "", terms: one && !f.job && !f.node ? null : f.terms };
}

const mostExported = 100000;

/** exported are the lines of what a filter selects in the whole log, as `skein events -o jsonl` prints them. */
export async function exported(f: Filter): Promise<{ lines: string[]; more: boolean }> {
  const q = asked(f), rest = matcher(own(f)), lines: string[] = [];
  q.set("limit", String(mostExported));
  let seen = 0;
  const r = await ask("/v1/events?" + q);
  if (!r.ok) throw new Error((await r.json().catch(() => null))?.detail ?? `refused (${r.status})`);
  await readLines(r, () => {}, (line) => {
    const v = JSON.parse(line);
    if (v.problem) throw new Error(v.problem.detail);
    if (!v.source || !v.kind) return;
    seen++;
    // The sentence is this page's own; numbers stay as they are written.
    if (rest(v)) lines.push(v.text === undefined ? line : line.slice(0, line.lastIndexOf(',"text":')) + "}");
  });
  return { lines, more: seen === mostExported };
}

function save(name: string, lines: string[]): void {
  const url = URL.createObjectURL(new Blob(lines.map((l) => l + "\n"), { type: "application/jsonl" })), a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const page = 200, none: Entry[] = [];

/** useHistory has what the daemon knows of a filter, beyond what the stream brought. */
function useHistory(f: Filter, text: string) {
  const [got, set] = useState<{ text: string; list: Entry[]; all: boolean; busy: boolean; wrong: string }>({ text: "", list: [], all: false, busy: false, wrong: "" });
  const load = async (older: boolean, oldest: Entry[], signal?: AbortSignal) => {
    set((g) => ({ ...g, busy: true, wrong: "" }));
    const q = asked(f);
    q.set("tail", String(page));
    if (older && oldest.length) q.set("until", new Date(hlcTime(oldest[0]!.hlc) + 1).toISOString());
    try {
      const list = await fetchEvents(q, signal);
      set((g) => ({ text, list: (g.text === text ? g.list : []).concat(list), all: list.length < page, busy: false, wrong: "" }));
    } catch (e) {
      if (!signal?.aborted) set((g) => ({ ...g, text, busy: false, wrong: String((e as Error).message ?? e) }));
    }
  };
  useEffect(() => {
    const stop = new AbortController();
    if (f.wrong.length === 0) void load(false, [], stop.signal);
    return () => stop.abort();
  }, [text, looksBack()?.at]);
  return { got: got.text === text ? got : { ...got, list: none, all: false }, older: (list: Entry[]) => load(true, list) };
}

export function EventsPage({ route }: { route: Route }) {
  const [node, inc, seq] = route.rest;
  const text = route.query.get("q") ?? "", f = parseFilter(text);
  const [typed, type] = useState(text);
  const [paused, pause] = useState<number | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const { got, older } = useHistory(f, text);
  useEffect(() => type(text), [text]);
  useEffect(() => {
    const keys = (e: KeyboardEvent) => {
      if (e.target instanceof HTMLInputElement || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "/") { e.preventDefault(); input.current?.focus(); }
      if (e.key === "p") pause((p) => (p === null ? Date.now() : null));
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  // A filter that says how long ago is looked at again now and then.
  const stream = get.events(), turn = f.since || f.until ? Math.floor(now() / 10000) : 0;
  const list = useMemo(() => selected(f, stream, got.list), [stream, got.list, text, looksBack()?.at, turn]);
  const held = useMemo(() => (paused === null ? list : list.filter((e) => hlcTime(e.hlc) <= paused)), [list, paused]);
  const shown = useMemo(() => held.slice().reverse(), [held]), last = useMemo(() => held.slice(-1000), [held]);
  const fresh = list.length - held.length;
  return <div class="grid">
    {node && inc && seq && <One source={{ node, inc: Number(inc) }} seq={Number(seq)} route={route} />}
    <Card title="Events" wide more={<span class="buttons">
      <button type="button" aria-pressed={paused !== null} onClick={() => pause(paused === null ? Date.now() : null)}>{paused === null ? "Pause" : fresh ? `Follow (${fresh} new)` : "Follow"}</button></span>}>
      <form class="filter" role="search" onSubmit={(e) => { e.preventDefault(); go(link("events", [], { q: typed.trim() })); }}>
        <label for="filter">Filter</label>
        <input id="filter" ref={input} type="search" value={typed} onInput={(e) => type(e.currentTarget.value)} spellcheck={false} autocomplete="off"
          placeholder="kind:lease* node:n3 job:pi term:40-42 since:2h text" />
        <button type="submit">Apply</button>
        {text && <a href={link("events")}>all events</a>}
      </form>
      {f.wrong.length > 0 && <p class="bad" role="alert">Not understood: <Text>{f.wrong.join(" ")}</Text>. A filter is like kind:lease* node:n3 job:ID term:40-42 since:2h, and words.</p>}
      {got.wrong && <p class="bad" role="alert"><Text>{got.wrong}</Text></p>}
      {!node && <BadgeOfAll key={text} of={last} />}
      <EventList events={shown} route={route} />
      <p class="buttons">
        {!got.all && f.wrong.length === 0 && <button type="button" disabled={got.busy} onClick={() => older(list)}>{got.busy ? "Loading\u2026" : "Older"}</button>}
        {got.all && <span class="dim">These are all that are kept.</span>}
        {f.wrong.length === 0 && <Export f={f} />}
      </p>
    </Card>
  </div>;
}

/** Export saves what the filter selects, of the whole log. */
function Export({ f }: { f: Filter }) {
  const [said, say] = useState("");
  const { line, beside } = command(f);
  const go = () => {
    say("Reading the log\u2026");
    exported(f).then(({ lines, more }) => {
      save(`events-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`, lines);
      say(`${lines.length} events` + (more ? `, of the first ${mostExported} that the daemon found` : ""));
    }).catch((e) => say(String(e.message ?? e)));
  };
  return <>
    <button type="button" onClick={go}>Export</button> <span role="status" class="dim"><Text>{said}</Text></span>
    <span class="dim">The same at a terminal: <code><Text>{line}</Text></code>{beside && <>, of which <Text>{beside}</Text> is looked for in the page alone</>}</span>
  </>;
}

/** One is an event by its permalink. */
function One({ source, seq, route }: { source: Source; seq: number; route: Route }) {
  const key = `${source.node}/${source.inc}:${seq}`;
  const [found, set] = useState<{ key: string; entry: Entry | null; wrong: string }>({ key: "", entry: null, wrong: "" });
  const near = get.events().find((e) => eventKey(e) === key);
  useEffect(() => {
    if (near || found.key === key) return;
    const q = new URLSearchParams({ node: source.node, after: seq > 1 ? `${source.node}/${source.inc}:${seq - 1}` : "", limit: "1" });
    fetchEvents(q).then((l) => set({ key, entry: l.find((e) => eventKey(e) === key) ?? null, wrong: "" }))
      .catch((e) => set({ key, entry: null, wrong: String(e.message ?? e) }));
  }, [key, !near]);
  const e = near ?? (found.key === key ? found.entry : null);
  const close = <a href={link("events", [], Object.fromEntries(route.query))}>close</a>;
  if (!e) return <Card title={`Event ${seq} of ${clean(source.node, 40)}`} wide more={close}><p class="none">{found.key !== key ? "Loading\u2026" : found.wrong ? <Text>{found.wrong}</Text> : "There is no such event here: not yet, or not any more."}</p></Card>;
  return <Card title={`Event ${seq} of ${clean(source.node, 40)}`} wide more={close}>
    <p class="sentence"><Text most={2000}>{e.text || e.kind}</Text></p>
    <Facts of={[
      ["kind", <a href={link("events", [], { q: "kind:" + e.kind })}><Text>{e.kind}</Text></a>],
      ["written", clock(hlcTime(e.hlc), 0)], ["by", <><Host node={source.node} route={route} /> <span class="dim">chain {source.inc}</span></>],
      ["term", e.term || "none: written without the lease"],
      ["hash", <code class="hash">{clean(e.hash)}</code>],
      ["before it", seq > 1 ? <a href={link("events", [source.node, String(source.inc), String(seq - 1)])}>event {seq - 1}</a> : "the first of its chain"],
    ]} />
    <Badge of={e} />
    <pre tabIndex={0} aria-label="body of the event">{lines(JSON.stringify(e.body, null, 2) ?? "")}</pre>
  </Card>;
}

