// The actions of the page: a closed list, each confirmed by the name that it is about. Those of
// runs and of load tests lie with their pages.
import { useState } from "preact/hooks";
import { later } from "./later";
import { looksBack, state } from "./store";
import { clean } from "./text";
import type { Entry } from "./types";

export interface Action {
  /** whether an event is the log's word of it */
  audit: (e: Entry) => boolean;
  title: string; path: string; body: Record<string, unknown>;
  /** what follows, and the command that does the same */
  consequence: string; command: string;
  /** what has to be typed */
  name: string; danger?: boolean;
  /** whose it is, where users may do it to what is theirs */
  owner?: string;
}

export const quoted = (s: string) => (/^[\w.:@-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'");

/** typable is the name, if it can be typed as it is shown. */
export const typable = (name: string, id: string) => (name && name.length <= 60 && name === name.trim() && clean(name) === name ? name : id);

export const field = (e: Entry, name: string) => (e.body as Record<string, unknown> | null)?.[name];

export const actions = {
  stepDown: (holder: string): Action => ({
    title: "Step down", path: "/v1/lease/step-down", body: { reason: "asked in the page" }, name: holder,
    consequence: `${holder} hands the lease over to the best host. Jobs go on; nothing is scheduled for about a second.`,
    command: "skein lease step-down", audit: (e) => e.kind === "step_down_asked" && e.source.node === holder,
  }),
  drain: (node: string, undo: boolean): Action => ({
    title: undo ? "Undo drain" : "Drain", path: "/v1/worker/drain", body: undo ? { node, undo } : { node }, name: node,
    consequence: undo ? `${node} gets chunks again.` : `${node} finishes the chunks that it has and gets no others, until it is undone.`,
    command: `skein worker drain ${undo ? "--undo " : ""}${quoted(node)}`,
    audit: (e) => e.kind === "worker_drained" && e.source.node === node && field(e, "drained") === !undo,
  }),
  onionDrain: (node: string, undo: boolean): Action => ({
    title: undo ? "Undo onion drain" : "Onion drain", path: "/v1/onion/drain", body: undo ? { node, undo } : { node }, name: node,
    consequence: undo ? `The points of ${node} come back into the descriptors.` : `The points of ${node} leave the descriptors: new visitors reach other hosts.`,
    command: `skein onion drain ${undo ? "--undo " : ""}${quoted(node)}`,
    audit: (e) => e.kind === "onion_drained" && e.source.node === node && field(e, "drained") === !undo,
  }),
  stop: (id: string, name: string, owner: string): Action => ({
    title: "Stop job", owner, path: `/v1/jobs/${encodeURIComponent(id)}/stop`, body: { reason: "asked in the page" }, name: typable(name, id), danger: true,
    consequence: "Its chunks that run are ended. What counts already stays; the job does not go on.", command: `skein job stop ${quoted(id)}`,
    audit: (e) => e.kind === "job_stopped" && field(e, "job") === id,
  }),
  retry: (id: string, name: string, owner: string): Action => ({
    title: "Retry chunks", owner, path: `/v1/jobs/${encodeURIComponent(id)}/release`, body: {}, name: typable(name, id),
    consequence: "The chunks that were given up are tried again.", command: `skein job retry ${quoted(id)}`,
    audit: (e) => e.kind === "chunks_released" && field(e, "job") === id,
  }),
};

let show: ((a: Action | null) => void) | null = null;

/** may says whether this page may ask for an action. */
function may(of: Action): boolean {
  const rights = state.who?.rights;
  if (!rights) return state.hello?.may_change === true;
  if (of.owner === undefined) return rights.operate === "all";
  return rights.use === "all" || (rights.use === "own" && of.owner === state.who?.name);
}

/** Act is a button for an action; where nobody may change anything, and in the past, there is none. */
export function Act({ of }: { of: Action }) {
  if (!may(of) || looksBack()) return null;
  return <button type="button" class={of.danger ? "danger" : undefined} onClick={() => show?.(of)}>{of.title}</button>;
}

const Asked = later(() => import("./rest").then((m) => m.Asked));

/** Confirm is where an action is confirmed, and tells how it went. */
export function Confirm() {
  const [action, set] = useState<Action | null>(null);
  show = set;
  return action && <Asked key={action.title + action.name} action={action} close={() => set(null)} />;
}
