import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Confirm } from "./actions";
import { fetchAll, later } from "./later";
import { Overview, sentence } from "./pages/overview";
import { Text } from "./parts";
import { go, here, link, parse, type Route } from "./route";
import { again, get, lacks, looksBack, state, useStore, watchAlso } from "./store";
import { age, clean, clock } from "./text";

const pages: [string, string, (p: { route: Route }) => any][] = [
  ["overview", "Overview", Overview],
  ["network", "Network", later(() => import("./rest").then((m) => m.NetworkPage))],
  ["events", "Events", later(() => import("./rest").then((m) => m.EventsPage))],
  ["lease", "Lease", later(() => import("./rest").then((m) => m.LeasePage))],
  ["jobs", "Jobs", later(() => import("./rest").then((m) => m.JobsPage))],
  ["workflows", "Workflows", later(() => import("./flows").then((m) => m.WorkflowsPage))],
  ["workers", "Workers", later(() => import("./rest").then((m) => m.WorkersPage))],
  ["onion", "Onion", later(() => import("./rest").then((m) => m.OnionPage))],
  ["load", "Load", later(() => import("./load").then((m) => m.LoadsPage), true)],
  ["zones", "Zones", later(() => import("./zones").then((m) => m.ZonesPage), true)],
];
const Drawer = later(() => import("./rest").then((m) => m.Drawer));
const AsOf = later(() => import("./rest").then((m) => m.AsOf));
const Help = later(() => import("./rest").then((m) => m.Help));

function useRoute(): Route {
  const [r, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const f = () => set(parse(location.hash));
    addEventListener("hashchange", f);
    return () => removeEventListener("hashchange", f);
  }, []);
  return r;
}

type Theme = "" | "light" | "dark";

function useTheme(): [Theme, () => void] {
  const [theme, set] = useState<Theme>(() => (localStorage.getItem("skein-theme") as Theme | null) ?? "");
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("skein-theme", theme);
  }, [theme]);
  return [theme, () => set(theme === "" ? "light" : theme === "light" ? "dark" : "")];
}

/** rows walks the rows of a page by j and k. */
function walkRows(step: number): void {
  const all = [...document.querySelectorAll<HTMLElement>("main tbody tr, main .events li")].map((r) => r.querySelector<HTMLElement>("a")).filter((a) => a !== null);
  const i = all.findIndex((a) => a.closest("tr, li")!.contains(document.activeElement));
  all[Math.max(0, Math.min(all.length - 1, i + step))]?.focus();
}

/** focusFilter waits for the filter of the events: its page may still be on the way. */
function focusFilter(tries: number): void {
  const el = document.getElementById("filter");
  if (el) el.focus();
  else if (tries) setTimeout(focusFilter, 50, tries - 1);
}

export function Shell() {
  useStore();
  const route = useRoute(), [theme, turn] = useTheme();
  const [help, showHelp] = useState(false);
  const host = route.query.get("host") ?? "";
  useEffect(() => {
    const one = route.rest[0] ?? "";
    watchAlso(route.page === "jobs" ? one : "", host && get.members().length > 64 ? host : "", route.page === "workflows" ? one : "");
    document.querySelector("header nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    document.title = `${pages.find(([p]) => p === route.page)?.[1] ?? "skein"} \u00B7 ${clean(state.hello?.cluster ?? "skein", 40)}`;
  }, [route.page, route.rest[0], host, state.hello?.cluster]);
  const shown = useRef(route);
  useEffect(() => {
    // What had the keyboard has gone with its page: it begins with the next one.
    if (shown.current !== route && document.activeElement === document.body) document.getElementById("main")?.focus();
    shown.current = route;
  }, [route.page, route.rest[0]]);
  useEffect(() => {
    if (!state.synced) return;
    const soon = setTimeout(fetchAll, 2000);
    return () => clearTimeout(soon);
  }, [state.synced]);
  useEffect(() => {
    const keys = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      const at = parse(location.hash), host = at.query.get("host"); // not what was drawn last
      if (e.key === "Escape") {
        if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
        else if (host) go(here(at, { host: "" }));
        return;
      }
      if (e.target instanceof HTMLInputElement) return;
      const n = e.key === "0" ? 10 : Number(e.key);
      if (n >= 1 && n <= pages.length && e.key.length === 1) go(link(pages[n - 1]![0], [], host ? { host } : {}));
      if (e.key === "?") showHelp(true);
      if (e.key === "j" || e.key === "k") walkRows(e.key === "j" ? 1 : -1);
      if (e.key === "/" && at.page !== "events") { e.preventDefault(); go(link("events")); focusFilter(40); }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  if (state.stream === "locked") return <Locked />;
  const page = pages.find(([p]) => p === route.page), Page = page?.[2], silent = (Date.now() - state.heardAt) / 1000;
  const at = route.query.get("at");
  return <>
    <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the page</a>
    <header>
      <div class="brand"><strong>skein</strong> <span class="cluster"><Text most={40}>{state.hello?.cluster ?? ""}</Text></span>
        {state.hello && <span class="dim">seen from <Text most={40}>{state.hello.node}</Text></span>}</div>
      <nav aria-label="pages">{pages.map(([p, name], i) => <a key={p} href={link(p, [], host ? { host } : {})} aria-current={p === route.page ? "page" : undefined}>
        <kbd aria-hidden="true">{(i + 1) % 10}</kbd> {name}</a>)}</nav>
      <div class="tools">
        <Live silent={silent} />
        <button type="button" aria-pressed={!!at} onClick={() => go(here(route, { at: at ? "" : new Date().toISOString() }))}>as of</button>
        <button type="button" onClick={turn} aria-label={`colours: ${theme || "as the system"}`} title="light, dark, as the system">{theme === "dark" ? "\u263E" : theme === "light" ? "\u2600" : "\u25D1"}</button>
        <button type="button" onClick={() => showHelp(true)} aria-label="keys and help">?</button>
      </div>
    </header>
    {state.stream === "stale" && <p class="banner warn" role="alert">Stale: nothing was heard from the daemon for {age(silent)}. What you see is the last picture; trying again.{state.problem && <> <Text>{state.problem.detail}</Text></>}</p>}
    {state.stream === "ended" && <p class="banner bad" role="alert">The stream has ended: <Text>{state.problem?.detail ?? "no reason was given"}</Text> {state.problem?.hint && <Text>{state.problem.hint}</Text>} <button type="button" onClick={again}>Begin anew</button></p>}
    {state.synced && lacks().length > 0 && <p class="banner warn">Not told by <Text most={40}>{state.hello?.node}</Text>, whose version may be another than that of this page: {lacks().join(", ")}.</p>}
    {at && state.synced && <AsOf route={route} />}
    <Said />
    <div class={host ? "with-drawer" : undefined}>
      <main id="main" tabIndex={-1} aria-label={page?.[1] ?? "page"}>
        <h1 class="quiet">{page?.[1] ?? "No such page"}</h1>
        {Page ? state.synced ? at && !looksBack() ? <p class="none alone">Nothing is shown until the log was read.</p> : <Guard key={route.page + route.rest}><Page route={route} /></Guard> : <p class="none alone">Waiting for the first picture.</p> : <p class="none alone">There is no page <Text>{route.page}</Text>. <a href={link("overview")}>Overview</a></p>}
      </main>
      {host && <Guard key={host}><Drawer node={host} route={route} /></Guard>}
    </div>
    <Confirm />
    {help && <Help close={() => showHelp(false)} />}
  </>;
}

/** Guard stands where something cannot be shown: a daemon of another version may say less than the page needs. */
class Guard extends Component<{ children: any }, { wrong?: unknown }> {
  static getDerivedStateFromError(wrong: unknown) { return { wrong }; }
  override render() {
    return this.state.wrong ? <p class="none alone" role="alert">What <Text most={40}>{state.hello?.node}</Text> says cannot be shown here, its version may be another than that of this page: <Text>{String(this.state.wrong)}</Text></p> : this.props.children;
  }
}

function Live({ silent }: { silent: number }) {
  const past = looksBack();
  if (past) return <span class="live info"><span aria-hidden="true">{"\u25C0"}</span> as of {clock(past.at)}</span>;
  if (state.stream === "live" && silent < 8) return <span class="live ok"><span aria-hidden="true">{"\u25CF"}</span> live</span>;
  return <span class="live warn"><span aria-hidden="true">{"\u25B2"}</span> {state.stream === "connecting" ? "connecting" : "stale " + age(silent)}</span>;
}

/** Said tells a screen reader how the cluster is when that changes; not each second. */
function Said() {
  const s = get.status(), l = get.lease();
  const key = `${s?.state} ${l?.holder} ${l?.term} ${s?.members?.alive}/${s?.members?.total}`;
  const [said, say] = useState({ key: "", text: "" });
  useEffect(() => { if (s && key !== said.key) say({ key, text: sentence().text }); }, [key]);
  return <p class="quiet" aria-live="polite" id="said">{clean(said.text, 300)}</p>;
}

function Locked() {
  return <main class="alone"><h1>This page is closed</h1>
    <p>The link was used, is older than two minutes, or the command that served the page has ended.</p>
    <p>Run <code>skein ui</code> again, and open the link that it prints.</p></main>;
}
