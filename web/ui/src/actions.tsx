// The actions of the page: a closed list, each confirmed by the name that it is about.
import { useState } from "preact/hooks";
import { Dialog, Text } from "./parts";
import { ask } from "./session";
import { state } from "./store";
import { clean } from "./text";

export interface Action {
  title: string; path: string; body: Record<string, unknown>;
  /** what follows, and the command that does the same */
  consequence: string; command: string;
  /** what has to be typed */
  name: string; danger?: boolean;
}

const quoted = (s: string) => (/^[\w.:@-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");

/** typable is the name, if it can be typed as it is shown. */
const typable = (name: string, id: string) => (name && name.length <= 60 && name === name.trim() && clean(name) === name ? name : id);

export const actions = {
  stepDown: (holder: string): Action => ({
    title: "Step down", path: "/v1/lease/step-down", body: { reason: "asked in the page" }, name: holder,
    consequence: `${holder} hands the lease over to the best host. Jobs go on; nothing is scheduled for about a second.`,
    command: "skein lease step-down",
  }),
  drain: (node: string, undo: boolean): Action => ({
    title: undo ? "Undo drain" : "Drain", path: "/v1/worker/drain", body: undo ? { node, undo } : { node }, name: node,
    consequence: undo ? `${node} gets chunks again.` : `${node} finishes the chunks that it has and gets no others, until it is undone.`,
    command: `skein worker drain ${undo ? "--undo " : ""}${quoted(node)}`,
  }),
  onionDrain: (node: string, undo: boolean): Action => ({
    title: undo ? "Undo onion drain" : "Onion drain", path: "/v1/onion/drain", body: undo ? { node, undo } : { node }, name: node,
    consequence: undo ? `The points of ${node} come back into the descriptors.` : `The points of ${node} leave the descriptors: new visitors reach other hosts.`,
    command: `skein onion drain ${undo ? "--undo " : ""}${quoted(node)}`,
  }),
  stop: (id: string, name: string): Action => ({
    title: "Stop job", path: `/v1/jobs/${encodeURIComponent(id)}/stop`, body: { reason: "asked in the page" }, name: typable(name, id), danger: true,
    consequence: "Its chunks that run are ended. What counts already stays; the job does not go on.", command: `skein job stop ${quoted(id)}`,
  }),
  retry: (id: string, name: string): Action => ({
    title: "Retry chunks", path: `/v1/jobs/${encodeURIComponent(id)}/release`, body: {}, name: typable(name, id),
    consequence: "The chunks that were given up are tried again.", command: `skein job retry ${quoted(id)}`,
  }),
};

let show: ((a: Action | null) => void) | null = null;

/** Act is a button for an action; where nobody may change anything there is none. */
export function Act({ of }: { of: Action }) {
  if (!state.hello?.may_change) return null;
  return <button type="button" class={of.danger ? "danger" : undefined} onClick={() => show?.(of)}>{of.title}</button>;
}

/** Confirm is where an action is confirmed, and tells how it went. */
export function Confirm() {
  const [action, set] = useState<Action | null>(null);
  show = set;
  return action && <Asked key={action.title + action.name} action={action} close={() => set(null)} />;
}

function Asked({ action, close }: { action: Action; close: () => void }) {
  const [typed, type] = useState("");
  const [busy, setBusy] = useState(false);
  const [said, say] = useState<{ text: string; hint?: string; bad: boolean } | null>(null);
  const [once] = useState(() => crypto.randomUUID()); // the same again is the same
  const act = async (e: Event) => {
    e.preventDefault();
    if (typed !== action.name || busy) return;
    setBusy(true);
    say(null);
    try {
      const r = await ask(action.path, {
        method: "POST", headers: { "Content-Type": "application/json", "Idempotency-Key": once }, body: JSON.stringify(action.body),
        signal: AbortSignal.timeout(30000),
      });
      const p = r.ok ? null : await r.json().catch(() => null);
      say(r.ok ? { text: "Done.", bad: false } : { text: p?.detail ?? `refused (${r.status})`, hint: p?.hint, bad: true });
    } catch (err) {
      say({ text: "No answer: it may have taken effect. Look at the events.", hint: String(err), bad: true });
    }
    setBusy(false);
  };
  const done = said !== null && !said.bad;
  return <Dialog title={action.title} close={close}>
    <form onSubmit={act}>
      <p><Text most={400}>{action.consequence}</Text></p>
      <p class="dim">The same at a terminal: <code><Text>{action.command}</Text></code></p>
      {!done && <label>To confirm, type <strong class="typed"><Text>{action.name}</Text></strong>
        <input type="text" autocomplete="off" spellcheck={false} autofocus value={typed} onInput={(e) => type(e.currentTarget.value)} /></label>}
      <p role="status" class={said?.bad ? "bad" : "ok"}>{said && <Text most={400}>{said.text}</Text>}{said?.hint && <span class="dim"> {clean(said.hint)}</span>}</p>
      <p class="buttons">{done ? <button type="button" onClick={close}>Close</button>
        : <><button type="submit" class={action.danger ? "danger" : "main"} disabled={typed !== action.name || busy}>{busy ? "\u2026" : action.title}</button>
          <button type="button" onClick={close}>Cancel</button></>}</p>
    </form>
  </Dialog>;
}
