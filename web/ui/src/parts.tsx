// Pieces that every page is made of.
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { here, link, type Route } from "./route";
import { looksBack } from "./store";
import { clean } from "./text";

/** Text shows what somebody else wrote. */
export function Text({ children, most }: { children: unknown; most?: number }) {
  return <bdi>{clean(children, most)}</bdi>;
}

const glyphs: Record<string, [string, string]> = {
  alive: ["\u25CF", "ok"], suspect: ["\u25B2", "warn"], dead: ["\u2715", "bad"], joining: ["\u25D0", "info"], stopped: ["\u25A0", "warn"], left: ["\u25CB", "dim"],
  unknown: ["?", "dim"], ok: ["\u25CF", "ok"], degraded: ["\u25B2", "warn"], stopping: ["\u25CB", "dim"],
  pending: ["\u25CB", "dim"], running: ["\u25B6", "info"], completed: ["\u2713", "ok"], failed: ["\u2715", "bad"], partial: ["\u25D0", "warn"],
  cancelled: ["\u25A0", "dim"], timeout: ["\u2715", "bad"], stopping_job: ["\u25A0", "warn"],
  idle: ["\u25CB", "dim"], normal: ["\u25CF", "ok"], slow: ["\u25B2", "warn"], stuck: ["\u2715", "bad"],
  accepted: ["\u2713", "ok"], assigned: ["\u25B6", "info"], parked: ["\u25A0", "warn"],
  blocked: ["\u25CB", "dim"], ready: ["\u25D4", "info"], skipped: ["\u2212", "dim"],
};

/** State is a word, a shape and a colour. */
export function State({ of, word }: { of: string; word?: string }) {
  of ||= "unknown"; // an older host does not say
  const [glyph, tone] = glyphs[of] ?? ["\u25C6", "dim"];
  return <span class={"state " + tone}><span aria-hidden="true">{glyph}</span> <Text most={24}>{word ?? of}</Text></span>;
}

/** A host that said that it stops is dead to the API, and stopped to people. */
export function healthOf(state: string, stopped?: boolean): string { return stopped ? "stopped" : state; }

export function toneOf(of: string): string { return glyphs[of]?.[1] ?? "dim"; }

/** Host is a name that opens what is known of it. */
export function Host({ node, route }: { node: string; route: Route }) {
  if (!node) return <span class="dim">none</span>;
  return <a href={here(route, { host: node })}><Text most={40}>{node}</Text></a>;
}

export function Job({ id, name }: { id: string; name?: string }) {
  return <a href={link("jobs", [id])}><Text most={40}>{name || id}</Text></a>;
}

export function Card({ title, children, wide, more }: { title: string; children: ComponentChildren; wide?: boolean; more?: ComponentChildren }) {
  const name = clean(title, 120);
  return <section class={"card" + (wide ? " wide" : "")}><h2><bdi>{name}</bdi>{more && <span class="more">{more}</span>}</h2>{children}</section>;
}

/** Untold stands where something of now would. */
export function Untold({ title }: { title: string }) {
  return <div class="grid"><Card title={title} wide><p class="none">No log tells of it: this is shown of now only.</p></Card></div>;
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}

export interface Column<T> { head: string; cell: (row: T) => ComponentChildren; right?: boolean; low?: boolean; /** of what is now: no log has it */ live?: boolean }

/** Table is rows of columns; those that are low leave first where it is narrow. */
export function Table<T>({ label, columns: all, rows, keyOf, none, current }: {
  label: string; columns: Column<T>[]; rows: T[]; keyOf: (row: T) => string; none: string; current?: (row: T) => boolean;
}) {
  if (rows.length === 0) return <p class="none">{none}</p>;
  const columns = looksBack() ? all.filter((c) => !c.live) : all;
  const classOf = (c: Column<T>) => [c.right && "right", c.low && "low"].filter(Boolean).join(" ") || undefined;
  return <div class="scroll" tabIndex={0} role="region" aria-label={label}><table>
    <thead><tr>{columns.map((c) => <th key={c.head} scope="col" class={classOf(c)}>{c.head}</th>)}</tr></thead>
    <tbody>{rows.map((r) => <tr key={keyOf(r)} class={current?.(r) ? "current" : undefined}>
      {columns.map((c) => <td key={c.head} class={classOf(c)}>{c.cell(r)}</td>)}</tr>)}</tbody>
  </table></div>;
}

export function Progress({ part, whole, label }: { part: number; whole: number; label: string }) {
  const share = whole > 0 ? Math.min(1, Math.max(0, part / whole || 0)) : 0;
  return <span class="progress"><span class="bar" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100}
    aria-valuenow={Math.round(share * 100)}><span style={{ width: share * 100 + "%" }} /></span><span class="num">{Math.floor(share * 100)}%</span></span>;
}

/** Choice is a few ways to see the same, each a link. */
export function Choice({ label, of, now }: { label: string; of: [string, string][]; now: string }) {
  return <nav class="choice" aria-label={label}>{of.map(([name, to]) =>
    <a key={name} href={to} aria-current={name === now ? "true" : undefined}>{name}</a>)}</nav>;
}

/** useWidth is a ref, and the width of what it is put on, in pixels. */
export function useWidth(): [(el: HTMLDivElement | null) => void, number] {
  const [el, put] = useState<HTMLDivElement | null>(null);
  const [width, set] = useState(600);
  useEffect(() => {
    if (!el) return;
    const o = new ResizeObserver(() => set(Math.max(240, Math.floor(el.clientWidth))));
    o.observe(el);
    return () => o.disconnect();
  }, [el]);
  return [put, width];
}

// Whether somebody went from page to page: what a link from elsewhere shows does not take the keyboard.
let moved = false;
addEventListener("hashchange", () => { moved = true; });

/** useReturn is a ref of what is beside a page; when that goes, the keyboard goes back to where it came from. */
export function useReturn(enter?: boolean): { current: HTMLElement | null } {
  const ref = useRef<HTMLElement>(null);
  useLayoutEffect(() => { // at once: by the next frame the keyboard may be elsewhere
    const from = document.activeElement as HTMLElement | null, el = ref.current;
    if (enter && moved) el?.focus(); // the row that led here may be drawn anew by now
    return () => { if (el?.contains(document.activeElement)) from?.focus(); };
  }, []);
  return ref;
}

/** Dialog keeps the keyboard inside until it is closed. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    d?.showModal();
    return () => d?.close(); // the keyboard goes back to where it was
  }, []);
  return <dialog ref={ref} aria-label={title} onClose={close}
    onClick={(e: JSX.TargetedMouseEvent<HTMLDialogElement>) => { if (e.target === ref.current) ref.current?.close(); }}>
    <div class="inside"><h2>{title}<button type="button" class="x" aria-label="close" onClick={() => ref.current?.close()}>{"\u00D7"}</button></h2>{children}</div>
  </dialog>;
}

/** still is a component that is drawn again only with another property. */
export const still = <P extends object>(draw: (p: P) => any) => class extends Component<P> {
  override shouldComponentUpdate(next: any) { return Object.keys(next).some((k) => next[k] !== (this.props as any)[k]); }
  override render() { return draw(this.props); }
};
