// What the page knows of whether events are what their hosts wrote.
import { useEffect, useState } from "preact/hooks";
import { Text } from "./parts";
import { prove, type Verdict } from "./proof";
import { link } from "./route";
import { eventKey, get, state } from "./store";
import { age, many, when } from "./text";
import type { Entry, Status } from "./types";

/** Badge proves an event in this page, and says how that went. */
export function Badge({ of }: { of: Entry }) {
  const key = eventKey(of) + of.hash;
  const [found, set] = useState<{ key: string; verdict: Verdict } | null>(null);
  useEffect(() => {
    let here = true;
    void prove([of]).then((verdict) => here && set({ key, verdict }));
    return () => { here = false; };
  }, [key]);
  return <Word of={found?.key === key ? found.verdict : null} />;
}

/** BadgeOfAll proves a list of events once it is asked to. */
export function BadgeOfAll({ of }: { of: Entry[] }) {
  const [verdict, set] = useState<Verdict | null>(null), [busy, work] = useState(false);
  const start = () => {
    work(true);
    void prove(of).then((v) => { set(v); work(false); });
  };
  return <div class="proof-of-all">
    <button type="button" disabled={busy || of.length === 0} onClick={start}>{busy ? "Proving\u2026" : verdict ? "Prove again" : "Prove these in this page"}</button>
    {(verdict || busy) && <Word of={busy ? null : verdict} />}
  </div>;
}

/** BadgeOfLog says whether the log is whole: its last events are proved in this page once a minute; the host tells of all others. */
export function BadgeOfLog({ log }: { log: Status["log"] }) {
  const [v, set] = useState<Verdict | null>(null), host = state.hello?.node ?? "", { checked_at: at, check_problem: problem = "", forked } = log;
  useEffect(() => {
    let here = true;
    const look = () => void prove(get.events().slice(-50)).then((v) => here && set(v)), timer = setInterval(look, 60000);
    look();
    return () => { here = false; clearInterval(timer); };
  }, []);
  const two = forked?.[0], ago = at && age((Date.now() - when(at)) / 1000) + " ago";
  const of: Verdict | null = two ? { kind: "broken", at: `${two.node}/${two.inc}`, why: "two histories of it are signed" }
    : problem && !problem.startsWith("not checked") ? { kind: "broken", at: "", why: `${host} found: ${problem}` }
    : v?.kind === "unchecked" ? { ...v, host, checked: at ? { at, ok: !problem, problem } : null } : v;
  return <Word of={of} to={link("events")} more={of?.kind === "proved" && <>; {at && !problem ? <>all of it checked by <Text>{host}</Text> {ago}</> : <><Text>{host}</Text> did not check older ones</>}</>} />;
}

function Word({ of: v, to, more: also }: { of: Verdict | null; to?: string; more?: any }) {
  const [tone, glyph, says, more] = words(v);
  return <div class={"badge " + tone} data-proof={v?.kind ?? "busy"}>
    <p role={to ? undefined : "status"}><strong><span aria-hidden="true">{glyph}</span> {to ? <a href={to}>{says}</a> : says}</strong> <span class="more">{more}{also}</span></p>
  </div>;
}

function Root({ print }: { print: string }) {
  return <code class="hash" title={"SHA-256 of the root key: " + print}>{print.slice(0, 32)}</code>;
}

function words(v: Verdict | null): [string, string, any, any] {
  if (!v) return ["dim", "\u2026", "being checked in this page", null];
  if (v.kind === "broken") return ["bad", "\u2715", <>broken{v.at && <> at <Text>{v.at}</Text></>}</>, <Text most={300}>{v.why}</Text>];
  if (v.kind === "proved") {
    const [c] = v.chains, several = v.shown > 1;
    return ["ok", "\u2713", "proved in this page", several
      ? <>{many(v.shown, "event")} of {many(v.chains.length, "chain")}, up to signed heads; the keys are certified by the root key <Root print={v.root} /></>
      : <><Text>{c?.source.node}</Text> signed its event {c?.head}{c && c.events > 1 && `, which vouches for this one, ${many(c.events - 1, "event")} before it`};
        its key is certified by {c?.by ? <><Text>{c.by}</Text>, and that one's by </> : ""}the root key <Root print={v.root} /></>];
  }
  if (v.checked?.ok) return ["info", "\u25CF", <>checked by <Text>{v.host}</Text> {age((Date.now() - when(v.checked.at)) / 1000)} ago</>, <>not in this page: <Text most={300}>{v.why}</Text></>];
  return ["warn", "?", "not checked", <><Text most={300}>{v.why}</Text>{v.checked && <>; <Text>{v.host}</Text> found: <Text most={300}>{v.checked.problem}</Text></>}</>];
}
