// A graph of what waits for what, drawn; whoever shows it has a table that says the same.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { State, still, toneOf, useWidth } from "./parts";
import { arrangeSteps, type StepBox } from "./steps";
import { clean, many } from "./text";
import type { RunStep } from "./types";

const states = ["completed", "running", "ready", "blocked", "failed", "timeout", "partial", "cancelled", "skipped"];
export const over = (state: string) => ["completed", "partial", "failed", "timeout", "cancelled", "skipped"].includes(state);

/** ended counts instances that have ended, of those that are known. */
export const ended = (s: RunStep) => Object.entries(s.counts ?? {}).reduce((n, [state, k]) => n + (over(state) ? k : 0), 0);
const many_ = (s: RunStep) => (s.many && s.total ? `${ended(s)}/${s.total}` : "");
export const before = (s: RunStep, name = (n: string) => n) => [...(s.after ?? []).map(name), ...(s.after_failed ?? []).map((n) => name(n) + " failed"), ...(s.after_done ?? []).map((n) => name(n) + " ended")];
export const ignored = (s: RunStep) => s.on_failure === "ignore" && over(s.state) && !["completed", "skipped", "cancelled"].includes(s.state);

/** Vertex is a step, or something else that is called and in a state that is said otherwise. */
export type Vertex = RunStep & { title?: string; word?: string };

export function Graph({ steps, chosen, to, of = "step", label = "graph of the steps" }: { steps: Vertex[]; chosen: string; to: (s: Vertex) => string; of?: string; label?: string }) {
  const [ref, width] = useWidth();
  const shape = steps.map((s) => [s.name, s.role, s.after, s.after_failed, s.after_done].join()).join(";");
  const p = useMemo(() => arrangeSteps(steps, width), [shape, width]);
  const walk = (e: JSX.TargetedKeyboardEvent<SVGSVGElement>) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!way) return;
    const all = [...e.currentTarget.querySelectorAll<SVGAElement>("a.step")], i = all.indexOf(document.activeElement as unknown as SVGAElement);
    e.preventDefault();
    all[(i + way + all.length) % all.length]?.focus();
  };
  const wordOf = (s: Vertex) => s.word ?? s.state, words = [...new Set([...states, ...steps.map(wordOf)])];
  const counts = words.map((s) => [s, steps.filter((x) => wordOf(x) === s).length] as const).filter(([, n]) => n);
  const by = new Map(steps.map((s) => [s.name, s]));
  return <>
    <div ref={ref}><div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <svg class="steps" width={p.width} height={p.height} role="group" aria-label={`${many(steps.length, of)}: ${counts.map(([s, n]) => `${n} ${s}`).join(", ")}; the table of ${of}s says the same in words`} onKeyDown={walk}>
        {p.edges.map((e) => <path key={e.from + ">" + e.to + e.kind} class={"way " + e.kind + (chosen && e.from !== chosen && e.to !== chosen ? " dimmed" : "")} d={e.d} />)}
        {p.boxes.map((b) => <Step key={b.name} b={b} s={by.get(b.name)!} chosen={b.name === chosen} to={to(by.get(b.name)!)} after={before(by.get(b.name)!, (n) => by.get(n)?.title ?? n).join(", ")} />)}
      </svg></div></div>
    <p class="legend">{counts.map(([s, n]) => <span key={s}><State of={steps.find((x) => wordOf(x) === s)!.state} word={`${n} ${s}`} /></span>)}
      {p.edges.some((e) => e.kind === "failed") && <Key kind="failed" text="if it fails" />}{p.edges.some((e) => e.kind === "done") && <Key kind="done" text="however it ends" />}{p.edges.some((e) => e.kind === "role") && <Key kind="role" text="setup, teardown" />}</p>
  </>;
}

function Key({ kind, text }: { kind: string; text: string }) {
  return <span><svg width="26" height="8" aria-hidden="true"><path d="M1 4h24" class={"way " + kind} /></svg> {text}</span>;
}

const Step = still(({ b, s, chosen, to, after }: { b: StepBox; s: Vertex; chosen: boolean; to: string; after: string }) => {
  const word = s.word ?? s.state, doubt = s.disputed ? `, ${s.disputed} disputed` : "";
  const label = [clean(s.title ?? s.name, 64), word + (ignored(s) ? ", ignored" : "") + doubt, many_(s) && many_(s) + " ended", s.reason && clean(s.reason), s.role, after && clean("after " + after)].filter(Boolean).join(", ");
  const most = Math.floor((b.w - 34) / 7.6), name = clean(s.title ?? s.name, 64);
  return <><a class={`step ${toneOf(s.state)} ${s.state}${chosen ? " chosen" : ""}`} href={to} aria-label={label} data-step={s.name}>
    <title>{label}</title>
    <rect x={b.x} y={b.y} width={b.w} height={b.h} rx={7} class="box" />
    {over(s.state) || !s.many || !s.total ? null : <rect x={b.x + 8} y={b.y + b.h - 7} width={((b.w - 16) * ended(s)) / s.total} height={3} rx={1.5} class="part" />}
  </a><g class={"step " + toneOf(s.state)} aria-hidden="true">
    <text x={b.x + 10} y={b.y + 18} class="name">{name.length > most ? name.slice(0, most - 1) + "\u2026" : name}</text>
    <text x={b.x + 10} y={b.y + 34} class="of">{word}{many_(s) && " " + many_(s)}{ignored(s) && " (ignored)"}{s.disputed ? " !" : ""}</text>
  </g></>;
});
