// What the keys do, and what words mean.
import { Dialog, Text } from "./parts";
import { state } from "./store";
import { clean } from "./text";

const keyList: [string, string][] = [
  ["1 to 7", "the pages"], ["/", "filter the events"], ["p", "pause and follow the events"], ["j k", "next and previous row"], ["enter", "open"],
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
  </Dialog>;
}
