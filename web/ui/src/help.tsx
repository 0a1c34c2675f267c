// What the keys do, and what words mean.
import { useEffect, useState } from "preact/hooks";
import { Dialog, Text } from "./parts";
import { ask } from "./session";
import { state } from "./store";
import { clean } from "./text";

const keyList: [string, string][] = [
  ["1 to 9, 0", "the pages"], ["/", "filter the events"], ["p", "pause and follow the events"], ["j k", "next and previous row"], ["enter", "open"],
  ["arrows", "from host to host in the picture"], ["esc", "close"], ["?", "this"],
];

const wordList: [string, string][] = [
  ["lease, holder, term", "One host holds the lease and schedules. Its term is a number that only rises: a later holder has a higher one."],
  ["voter, witness", "Voters grant the lease. A witness votes and never holds it."],
  ["publisher", "The host that publishes the onion addresses: the holder, or the best host alive where no lease is visible."],
  ["suspect, dead, stopped", "A host that is not heard of is suspect first; its work goes elsewhere when it is dead, two minutes after its last sign of life, or at once when it said that it stops."],
  ["source, chain", "Each host writes its own chain of events; every event names the hash of the one before it."],
  ["chunk, attempt", "A job is cut into chunks. A chunk may run more than once, and counts exactly once."],
];

function youMay(): string {
  const r = state.who?.rights;
  if (r?.operate === "all") return "this page may read and act";
  if (r?.use === "own") return "this page may read, and act on your own jobs";
  return "this page may read, and act on nothing";
}

export function Help({ close }: { close: () => void }) {
  return <Dialog title="Keys and words" close={close}>
    <dl class="facts">{keyList.map(([k, v]) => <div key={k}><dt><kbd>{k}</kbd></dt><dd>{v}</dd></div>)}</dl>
    {state.who && <p>You ask as <Text>{state.who.name || "anybody who may read here"}</Text>, {clean(state.who.role, 20)}: {youMay()}.</p>}
    <h3>Words</h3>
    <dl class="words">{wordList.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>
    <Explain />
  </Dialog>;
}

interface Topic { name: string; kind: string; doc: string; parts: { is: string; text: string; rows: string[][] }[] }

/** Marked is a text in which words between backticks are code. */
const Marked = ({ of }: { of: string }) => <>{of.split("`").map((s, i) => (i % 2 ? <code>{s}</code> : s))}</>;

/** Explain shows what `skein explain` prints, which the host has. */
function Explain() {
  const [all, list] = useState<Topic[]>([]), [found, show] = useState<Topic[]>([]), [typed, type] = useState(""), [wrong, say] = useState("");
  const get = async (name: string) => {
    const r = await ask("/topics" + name), v = await r.json();
    if (!r.ok) throw new Error(v.detail);
    say("");
    return v.topics as Topic[];
  };
  const failed = (e: Error) => { show([]); say(e.message); };
  useEffect(() => { get("").then(list, failed); }, []);
  return <>
    <h3>Explained</h3>
    <form class="filter" onSubmit={(e) => { e.preventDefault(); get("/" + encodeURIComponent(typed.trim())).then(show, failed); }}>
      <label for="topic">A kind of event, alert, check, metric, key or exit code</label>
      <input id="topic" list="topics" value={typed} onInput={(e) => type(e.currentTarget.value)} spellcheck={false} autocomplete="off" />
      <datalist id="topics">{all.map((t) => <option value={t.name}>{t.kind}</option>)}</datalist>
      <button type="submit">Explain</button>
    </form>
    <div role="status">{wrong && <p class="bad"><Text>{wrong}</Text></p>}
      {found.map((t) => <section class="topic"><h3><Text>{t.name}</Text> <span class="dim">{t.kind}, {t.doc}</span></h3>
        {t.parts.map((p) => p.is === "code" ? <pre tabIndex={0}>{p.text}</pre>
          : p.is === "table" ? <div class="scroll" tabIndex={0}><table>{p.rows.map((r) => <tr>{r.map((c) => <td><Marked of={c} /></td>)}</tr>)}</table></div>
          : p.is === "head" ? <h3>{p.text}</h3> : <p><Marked of={p.text} /></p>)}</section>)}</div>
  </>;
}
