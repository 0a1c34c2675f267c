// What the page knows of whether events are what their hosts wrote.
import { useEffect, useState } from "preact/hooks";
import { Text } from "./parts";
import { prove, type Verdict } from "./proof";
import { eventKey } from "./store";
import { age, many, when } from "./text";
import type { Entry } from "./types";

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

function Word({ of: v }: { of: Verdict | null }) {
  const [tone, glyph, says, more] = words(v);
  return <div class={"badge " + tone} data-proof={v?.kind ?? "busy"}>
    <p role="status"><strong><span aria-hidden="true">{glyph}</span> {says}</strong> <span class="more">{more}</span></p>
  </div>;
}

function Root({ print }: { print: string }) {
  return <code class="hash" title={"SHA-256 of the root key: " + print}>{print.slice(0, 32)}</code>;
}

function words(v: Verdict | null): [string, string, any, any] {
  if (!v) return ["dim", "\u2026", "being checked in this page", null];
  if (v.kind === "broken") return ["bad", "\u2715", <>broken at <Text>{v.at}</Text></>, <Text most={300}>{v.why}</Text>];
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
