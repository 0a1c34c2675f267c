// The dialog that confirms an action.
import { useRef, useState } from "preact/hooks";
import type { Action } from "./actions";
import { Dialog, Text } from "./parts";
import { link } from "./route";
import { ask } from "./session";
import { eventKey, get, useStore } from "./store";
import { clean } from "./text";

export function Asked({ action, close }: { action: Action; close: () => void }) {
  const [typed, type] = useState("");
  const [busy, setBusy] = useState(false);
  const [said, say] = useState<{ text: string; hint?: string; bad: boolean } | null>(null);
  const [once] = useState(() => crypto.randomUUID()); // the same again is the same
  const before = useRef<Set<string> | null>(null); // events that were there
  useStore();
  const act = async (e: Event) => {
    e.preventDefault();
    if (typed !== action.name || busy) return;
    before.current ??= new Set(get.events().map(eventKey));
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
  const told = done ? get.events().find((e) => !before.current?.has(eventKey(e)) && action.audit(e)) : undefined;
  return <Dialog title={action.title} close={close}>
    <form onSubmit={act}>
      <p><Text most={400}>{action.consequence}</Text></p>
      <p class="dim">The same at a terminal: <code><Text>{action.command}</Text></code></p>
      {!done && <label>To confirm, type <strong class="typed"><Text>{action.name}</Text></strong>
        <input type="text" autocomplete="off" spellcheck={false} autofocus value={typed} onInput={(e) => type(e.currentTarget.value)} /></label>}
      <p role="status" class={said?.bad ? "bad" : "ok"}>{said && <Text most={400}>{said.text}</Text>}{said?.hint && <span class="dim"> {clean(said.hint)}</span>}</p>
      {done && <p>{told ? <>In the log: <a href={link("events", [told.source.node, String(told.source.inc), String(told.seq)])} onClick={close}>event {told.seq} of <Text most={40}>{told.source.node}</Text></a></> : <span class="dim">Its event is on its way.</span>}</p>}
      <p class="buttons">{done ? <button type="button" onClick={close}>Close</button>
        : <><button type="submit" class={action.danger ? "danger" : "main"} disabled={typed !== action.name || busy}>{busy ? "\u2026" : action.title}</button>
          <button type="button" onClick={close}>Cancel</button></>}</p>
    </form>
  </Dialog>;
}
