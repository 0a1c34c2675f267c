// Where the steps of a workflow stand: each behind those that it waits for, in columns from
// left to right, or where it is narrow from top to bottom.
import type { RunStep } from "./types";

export interface StepBox { name: string; x: number; y: number; w: number; h: number }
export interface Way { from: string; to: string; kind: "after" | "failed" | "done" | "role"; d: string }

const high = 44, apart = 14, least = 124, most = 190, gap = 46, edge = 4, narrow = 560;

/** arrangeSteps fits the columns to a width, and is wider where they cannot be narrower. */
export function arrangeSteps(steps: RunStep[], width: number): { width: number; height: number; boxes: StepBox[]; edges: Way[] } {
  const by = new Map(steps.map((s) => [s.name, s]));
  const ways: Omit<Way, "d">[] = [];
  const add = (names: string[] | undefined, to: string, kind: Way["kind"]) => { for (const n of names ?? []) if (by.has(n)) ways.push({ from: n, to, kind }); };
  for (const s of steps) { add(s.after, s.name, "after"); add(s.after_failed, s.name, "failed"); add(s.after_done, s.name, "done"); }
  // A setup leads to what waits for nothing else, and a teardown follows what nothing waits for.
  const waits = new Set(ways.map((w) => w.to)), leads = new Set(ways.map((w) => w.from));
  const plain = steps.filter((s) => !s.role), setups = steps.filter((s) => s.role === "setup"), downs = steps.filter((s) => s.role === "teardown");
  const ends = (plain.length ? plain : setups).filter((s) => !leads.has(s.name));
  for (const s of plain) if (!waits.has(s.name)) for (const u of setups) if (!leads.has(u.name)) ways.push({ from: u.name, to: s.name, kind: "role" });
  for (const d of downs) if (!waits.has(d.name)) for (const s of ends) ways.push({ from: s.name, to: d.name, kind: "role" });

  const depth = new Map(steps.map((s) => [s.name, 0]));
  for (let round = 0, changed = true; changed && round < steps.length; round++) { // there is no cycle
    changed = false;
    for (const w of ways) if (depth.get(w.to)! <= depth.get(w.from)!) { depth.set(w.to, depth.get(w.from)! + 1); changed = true; }
  }
  const columns: string[][] = [];
  for (const s of steps) (columns[depth.get(s.name)!] ??= []).push(s.name);
  // Each stands as high as those before it do in the mean.
  const place = new Map<string, number>();
  for (const c of columns.map((c) => c ?? [])) {
    const wish = new Map(c.map((n, i) => {
      const from = ways.filter((w) => w.to === n).map((w) => place.get(w.from) ?? 0);
      return [n, from.length ? from.reduce((a, b) => a + b, 0) / from.length : i];
    }));
    c.sort((a, b) => wish.get(a)! - wish.get(b)!);
    c.forEach((n, i) => place.set(n, i - c.length / 2));
  }
  const sorted = columns.map((c) => c ?? []), boxes: StepBox[] = [];
  return width < narrow ? downwards() : sideways();

  function sideways() {
    const w = Math.max(least, Math.min(most, Math.floor((width - 2 * edge + gap) / Math.max(1, sorted.length)) - gap));
    const tallest = Math.max(1, ...sorted.map((c) => c.length)), height = tallest * (high + apart) - apart + 2 * edge;
    sorted.forEach((c, i) => c.forEach((name, k) => {
      const top = (height - (c.length * (high + apart) - apart)) / 2;
      boxes.push({ name, x: edge + i * (w + gap), y: top + k * (high + apart), w, h: high });
    }));
    return { width: sorted.length * (w + gap) - gap + 2 * edge, height, boxes, edges: drawn((a, b) => {
      const x = a.x + a.w, y = a.y + a.h / 2, to = b.y + b.h / 2, bend = (b.x - x) / 2;
      return `M${x} ${y}C${x + bend} ${y} ${b.x - bend} ${to} ${b.x} ${to}`;
    }) };
  }

  /** Where it is narrow, a column is lines of as many as there is room for, each below the one before. */
  function downwards() {
    const line = Math.max(1, Math.floor((width - 2 * edge + apart) / (least + apart))), w = Math.floor((width - 2 * edge + apart) / line) - apart;
    let y = edge;
    for (const c of sorted) {
      for (let i = 0; i < c.length; i += line) {
        const some = c.slice(i, i + line), left = (width - some.length * (w + apart) + apart) / 2;
        some.forEach((name, k) => boxes.push({ name, x: left + k * (w + apart), y, w, h: high }));
        y += high + apart;
      }
      y += gap - apart - 8;
    }
    return { width, height: y - gap + 8 + edge, boxes, edges: drawn((a, b) => {
      const x = a.x + a.w / 2, y = a.y + a.h, to = b.x + b.w / 2, bend = (b.y - y) / 2;
      return `M${x} ${y}C${x} ${y + bend} ${to} ${b.y - bend} ${to} ${b.y}`;
    }) };
  }

  function drawn(d: (a: StepBox, b: StepBox) => string): Way[] {
    const at = new Map(boxes.map((b) => [b.name, b]));
    return ways.map((e) => ({ ...e, d: d(at.get(e.from)!, at.get(e.to)!) }));
  }
}
