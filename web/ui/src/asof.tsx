// The page as of an earlier moment: a slider over how much happened when, and what the
// log said then in the place of what is. What no log has, as round trips and traffic, is
// absent. Loaded when somebody looks back.
import { useEffect, useRef, useState } from "preact/hooks";
import { Text, useReturn, useWidth } from "./parts";
import { go, here, type Route } from "./route";
import { ask } from "./session";
import { fetchEvents, looksBack, type Past, showPast, termsOfNow } from "./store";
import { clean, clock, lines, when } from "./text";
import type { Entry, Term } from "./types";

interface Replayed {
  host: string; position: string; last_at: string | null; events: number; state_hash: string;
  lease: { term: number; holder: string; started_at: string | null; ended_at: string | null };
  config: { epoch: number; term: number; voters: string[]; mode: string };
  members: { node: string; status: string; addr: string; version: string; health: string; publishing: boolean; ended_at: string | null }[];
  jobs: { id: string; name: string; owner: string; state: string; submitted_at: string | null; finished_at: string | null; chunks: Record<string, number>; iterations: Record<string, number> }[];
}

const step = 500; // milliseconds from one picture to the next while it plays
const speeds = [1, 10, 60];
const spans: [string, number][] = [["1h", 3600e3], ["1d", 86400e3], ["all", 0]];

const rowsOf = (list: Record<string, unknown>[], key: string) => new Map(list.map((r) => [String(r[key]), r]));

/** pastOf makes the rows of the page of what the log said. */
function pastOf(at: number, r: Replayed, events: Entry[]): Past {
  const ended = r.lease.ended_at !== null, holder = ended ? "" : r.lease.holder;
  const publisher = r.members.find((m) => m.publishing && !/suspect|dead/.test(m.health))?.node ?? "";
  const lease = {
    holder, term: r.lease.term, mode: r.config.mode, voters: r.config.voters.length, publisher, config: r.config, abstaining: [],
    tenure_seconds: holder && r.lease.started_at ? (at - when(r.lease.started_at)) / 1000 : null,
  };
  const members = r.members.filter((m) => !m.ended_at).map((m) => ({
    node: m.node, addr: m.addr, state: m.health || "unknown", role: m.node === holder ? "holder" : "", voter: r.config.voters.includes(m.node), publisher: m.publishing,
    version: m.version, endpoints: [], zone: "", term: 0,
  }));
  const count = (s: string) => members.filter((m) => m.state === s).length, jobs = (s: string) => r.jobs.filter((j) => j.state === s).length;
  const status = {
    state: "as of " + clock(at), reasons: [], role: "", term: r.lease.term, lease,
    members: { total: members.length, alive: count("alive"), suspect: count("suspect"), dead: count("dead") },
    log: { events: r.events, sources: r.position.split(",").filter(Boolean).length, state_hash: r.state_hash }, jobs: { running: jobs("running"), pending: jobs("pending") },
  };
  // A term is known by its beginning; what ended the last one was written later.
  const begun = termsOfNow().filter((t) => when(t.started_at) <= at), newest = Math.max(0, ...begun.map((t) => t.term));
  const terms = begun.map((t: Term) => (t.term < newest || when(t.ended_at) <= at ? t : { ...t, ended_at: null, told_at: null, last_evidence_at: null, cause: "", successor: "" }));
  return {
    at, events, rows: new Map([
      ["status", new Map([["status", status]])], ["lease", new Map([["lease", lease]])], ["members", rowsOf(members, "node")], ["terms", rowsOf(terms as never, "term")],
      ["jobs", rowsOf(r.jobs.map((j) => ({
        ...j, elapsed_seconds: ((when(j.finished_at) || at) - when(j.submitted_at)) / 1000, attempts: {}, rate_per_second: null, eta_seconds: null, holder: "",
      })), "id")],
    ]) as Past["rows"],
  };
}

const pause = (ms: number, signal: AbortSignal) => new Promise<void>((done, stop) => {
  const t = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(t); stop(signal.reason); });
});

/** replay asks what the log said; while others ask as well it waits for its turn. */
async function replay(at: string, signal: AbortSignal): Promise<Replayed> {
  for (;;) {
    const r = await ask("/v1/replay?" + new URLSearchParams({ at }), { signal });
    const v = await r.json().catch(() => null);
    if (r.ok) return v.replay;
    if (r.status !== 429) throw new Error([v?.detail ?? `refused (${r.status})`, v?.hint].filter(Boolean).join(": "));
    await pause(1000 * Math.min(10, Number(r.headers.get("Retry-After")) || 1), signal);
  }
}

const text = (at: number) => new Date(at).toISOString();

/** AsOf is the bar under the head of the page while it looks back. */
export function AsOf({ route }: { route: Route }) {
  const asked = route.query.get("at") ?? "", at = when(asked), past = looksBack();
  const [raw, keep] = useState<{ at: string; json: string } | null>(null);
  const [wrong, say] = useState("");
  const [speed, play] = useState(0), ref = useReturn();
  const clockAt = useRef<[number, number]>([0, 0]); // when it began to play, and from where
  const move = (to: number) => {
    if (to >= Date.now()) { play(0); location.replace(here(route, { at: "" })); } // it has come to what is
    else location.replace(here(route, { at: text(to) })); // no step of the browser's history for each
  };
  useEffect(() => () => showPast(null), []);
  useEffect(() => {
    if (!Number.isFinite(at)) { say(`${clean(asked, 60)} is no time; it is written like ${text(Date.now())}`); showPast(null); return; }
    const stop = new AbortController(), began = Date.now();
    Promise.all([replay(text(at), stop.signal), fetchEvents(new URLSearchParams({ tail: "200", until: text(at + 1) }), stop.signal)]).then(async ([r, events]) => {
      if (speed) await pause(Math.max(0, step - (Date.now() - began)), stop.signal);
      say("");
      keep({ at: asked, json: JSON.stringify(r, null, 2) });
      showPast(pastOf(at, r, events));
    }).catch((e) => {
      if (stop.signal.aborted) return;
      play(0);
      showPast(null);
      say(String((e as Error).message ?? e));
    });
    return () => stop.abort();
  }, [asked]);
  useEffect(() => {
    if (!speed || past?.at !== at) return;
    const [wall, from] = clockAt.current;
    move(Math.max(at + 1, from + (Date.now() - wall) * speed));
  }, [speed, past]);
  const start = (n: number) => { clockAt.current = [Date.now(), at]; play(n); };
  return <section ref={ref} class="asof" aria-label="as of an earlier moment">
    <Slider at={at} move={(to) => { play(0); move(to); }} />
    <p class="buttons">
      <strong>as of {Number.isFinite(at) ? clock(at) : "?"}</strong>
      {speeds.map((n) => <button key={n} type="button" aria-pressed={speed === n} aria-label={`play ${n} times as fast`} onClick={() => (speed === n ? play(0) : start(n))}>{"\u25B6"} {"\u00D7"}{n}</button>)}
      <button type="button" onClick={() => go(here(route, { at: "" }))}>now</button>
      <span class="dim">At a terminal: <code>skein log replay --at <Text>{asked}</Text></code></span>
    </p>
    {wrong && <p class="bad" role="alert"><Text most={400}>{wrong}</Text></p>}
    {raw && raw.at === asked && <details><summary>all that the log said</summary><pre id="replay" tabIndex={0}>{lines(raw.json, 200000)}</pre></details>}
  </section>;
}

/** Slider chooses a moment; behind it stands how much happened when. */
function Slider({ at, move }: { at: number; move: (to: number) => void }) {
  const [ref, width] = useWidth();
  const [span, choose] = useState("all");
  const [d, set] = useState<{ from: number; to: number; events: number[] } | null>(null);
  const [drag, to] = useState<number | null>(null);
  useEffect(() => {
    const stop = new AbortController(), ms = spans.find(([n]) => n === span)![1];
    const q = new URLSearchParams({ spans: "240" });
    if (ms) q.set("since", text(Date.now() - ms));
    ask("/v1/log/density?" + q, { signal: stop.signal }).then((r) => r.json()).then((v) => {
      if (Array.isArray(v.events)) set({ from: when(v.from), to: when(v.to), events: v.events });
    }).catch(() => {}); // there is a slider without it
    return () => stop.abort();
  }, [span]);
  const from = d?.from ?? Date.now() - 3600e3, end = Math.max(d?.to ?? Date.now(), at || 0), shown = drag ?? at;
  const most = Math.max(1, ...(d?.events ?? [])), height = 34;
  let bars = "";
  d?.events.forEach((n, i) => {
    if (!n) return;
    const h = 3 + (height - 3) * (Math.log1p(n) / Math.log1p(most)), x = (i / d.events.length) * width;
    bars += `M${x.toFixed(1)} ${height}v${-h.toFixed(1)}h${Math.max(1, width / d.events.length - 0.5).toFixed(1)}V${height}z`;
  });
  return <div class="slide">
    <div ref={ref}>
      <svg width={width} height={height} aria-hidden="true"><path d={bars} class="density" /></svg>
      <input type="range" min={from} max={end} step={Math.max(1, Math.round((end - from) / 2000))} value={Number.isFinite(shown) ? shown : end}
        aria-label="moment" aria-valuetext={Number.isFinite(shown) ? clock(shown) : undefined}
        onInput={(e) => to(Number(e.currentTarget.value))} onChange={(e) => { to(null); move(Number(e.currentTarget.value)); }} />
    </div>
    <p class="dim ends"><span>{clock(from)}</span>
      <span class="choice" role="group" aria-label="how far back">{spans.map(([n]) => <button key={n} type="button" aria-pressed={n === span} onClick={() => choose(n)}>{n}</button>)}</span>
      <span>{drag !== null ? clock(drag) : clock(end)}</span></p>
  </div>;
}
