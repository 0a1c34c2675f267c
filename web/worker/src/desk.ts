import type { Outcome, Ref, Spec, Task } from "./task";

// What a worker at a gateway has: chunks that wait, that run, and results that are kept
// until they are settled. It knows no network and no clock; client.ts does what follows.

// Chunks, State and Push are what a gateway tells. Integers of 64 bits are decimal.
export interface Chunks {
  spec: Spec & { executor: string; first_iteration: string };
  refs: Ref[];
}

export interface State {
  session: string;
  seq: string;
  chunks: Chunks[];
  stop: Ref[];
}

export interface Push {
  v: number;
  type: string;
  session: string;
  seq: string;
  chunks?: Chunks;
  refs?: Ref[];
  reason?: string;
  after?: string;
}

// Result is what became of an attempt, as a gateway is told it.
export interface Result extends Ref {
  seconds: number;
  output?: string;
  error?: string;
  class?: string;
}

interface Kept {
  result: Result;
  taken: boolean; // by the gateway, which may yet lose it
}

const maxResults = 64;
// maxResultsBytes is how long results may be together that go over the socket.
export const maxResultsBytes = 48 << 10;

export class Desk {
  session = 0n; // 0: none
  // behind is set when something was not heard: all must be told again.
  behind = false;
  // over says why the session ended where none shall follow, later where one shall after
  // a while.
  over: string | undefined;
  later: string | undefined;
  private seq = 0n;
  private due = 0n; // number of the latest push at the latest beat
  private after = 0n;
  private readonly waiting = new Map<string, Task>();
  private readonly running = new Map<string, { task: Task; done: bigint; stop: AbortController }>();
  private readonly kept = new Map<string, Kept>();
  private early: Push[] = []; // of a session that is not known yet

  constructor(
    readonly slots: number,
    readonly room: number,
    readonly memoryBytes: bigint,
  ) {}

  // attach is the request that begins a session.
  attach(client: number) {
    return {
      slots: this.slots,
      room: this.room,
      memory_bytes: String(this.memoryBytes),
      executors: ["wasm"],
      running: [...this.having()].map((t) => plain(t.ref)),
      kept: [...this.kept.values()].map((k) => plain(k.result)),
      after: String(this.after),
      client,
    };
  }

  // attached takes in what a session begins with, told what it is to have now.
  attached(s: State): void {
    this.session = BigInt(s.session);
    this.told(s);
    const early = this.early;
    this.early = [];
    early.forEach((p) => this.pushed(p));
  }

  // told takes in all that it is to have.
  told(s: State): void {
    if (BigInt(s.session) !== this.session) {
      return;
    }
    for (const k of this.kept.values()) {
      k.taken = false; // it may be settled, which the answer says
    }
    this.seq = BigInt(s.seq);
    this.due = this.seq;
    this.behind = false;
    this.stop(s.stop);
    s.chunks.forEach((c) => this.add(c));
  }

  // pushed takes in what is told unasked.
  pushed(p: Push): void {
    const session = BigInt(p.session);
    if (session > this.session && this.early.length < 1000) {
      this.early.push(p);
    }
    const seq = BigInt(p.seq);
    if (session !== this.session || seq <= this.seq || this.behind) {
      return;
    }
    if (seq !== this.seq + 1n) {
      this.behind = true;
      return;
    }
    this.seq = seq;
    switch (p.type) {
      case "chunk":
        if (p.chunks) {
          this.add(p.chunks);
        }
        break;
      case "stop":
        this.stop(p.refs ?? []);
        break;
      case "settled":
        (p.refs ?? []).forEach((r) => this.kept.delete(keyOf(r)));
        break;
      case "replaced":
        this.ended(p.reason ?? "", BigInt(p.after ?? 0));
    }
  }

  // beaten takes in the number of the latest push. One that was sent before the last beat
  // is not on its way any more.
  beaten(seq: string): void {
    this.behind ||= this.seq < this.due;
    this.due = BigInt(seq);
  }

  // lost ends the session: the next one is told all that there is.
  lost(): void {
    this.session = 0n;
    this.early = [];
  }

  // next is a chunk to run now and how it is stopped.
  next(): { task: Task; stop: AbortSignal } | undefined {
    const [first] = this.waiting;
    if (!first || this.running.size >= this.slots) {
      return undefined;
    }
    const [key, task] = first;
    this.waiting.delete(key);
    const stop = new AbortController();
    this.running.set(key, { task, done: 0n, stop });
    return { task, stop: stop.signal };
  }

  progress(r: Ref, done: bigint): void {
    const at = this.running.get(keyOf(r));
    if (at) {
      at.done = done;
    }
  }

  // done keeps what a chunk came to, and reports whether anybody wants it: not if it
  // was stopped.
  done(o: Outcome): boolean {
    const key = keyOf(o.ref);
    if (!this.running.delete(key)) {
      return false;
    }
    this.kept.set(key, { result: resultOf(o), taken: false });
    return true;
  }

  // results are those that a gateway has not taken, as many as fit into one message. One
  // that is longer than that comes alone.
  results(): Result[] {
    const out: Result[] = [];
    let length = 0;
    for (const { result, taken } of this.kept.values()) {
      const size = JSON.stringify(result).length * (result.output ? 1.1 : 1);
      if (taken || (out.length > 0 && length + size > maxResultsBytes)) {
        continue;
      }
      out.push(result);
      length += size;
      if (out.length === maxResults) {
        break;
      }
    }
    return out;
  }

  // judged takes in what became of results.
  judged(results: Result[], verdicts: string[]): void {
    results.forEach((r, i) => {
      const kept = this.kept.get(keyOf(r));
      if (!kept) {
        return;
      }
      if (verdicts[i] === "unknown") {
        this.kept.delete(keyOf(r)); // nobody wants it
      } else {
        kept.taken = true;
      }
    });
  }

  beat(ready: boolean) {
    return {
      session: String(this.session),
      have: [
        ...[...this.waiting.values()].map((t) => ({ ...plain(t.ref), done: "0" })),
        ...[...this.running.values()].map((r) => ({ ...plain(r.task.ref), done: String(r.done) })),
      ],
      kept: this.kept.size,
      ready,
    };
  }

  // clear ends all: the session is over.
  clear(): void {
    this.stop([...this.having()].map((t) => t.ref));
    this.lost();
  }

  counts(): { waiting: number; running: number; kept: number } {
    return { waiting: this.waiting.size, running: this.running.size, kept: this.kept.size };
  }

  private *having(): Generator<Task> {
    yield* this.waiting.values();
    for (const r of this.running.values()) {
      yield r.task;
    }
  }

  private add(c: Chunks): void {
    for (const ref of c.refs) {
      const key = keyOf(ref);
      if (c.spec.executor !== "wasm" || this.waiting.has(key) || this.running.has(key) || this.kept.has(key)) {
        continue;
      }
      const from = BigInt(ref.chunk) * BigInt(c.spec.chunk);
      const left = BigInt(c.spec.iterations) - from;
      const size = left < BigInt(c.spec.chunk) ? left : BigInt(c.spec.chunk);
      this.waiting.set(key, { ref, spec: c.spec, offset: String(BigInt(c.spec.first_iteration) + from), iterations: String(size) });
    }
  }

  private stop(refs: Ref[]): void {
    for (const r of refs) {
      this.waiting.delete(keyOf(r));
      const at = this.running.get(keyOf(r));
      this.running.delete(keyOf(r));
      at?.stop.abort();
    }
  }

  private ended(reason: string, after: bigint): void {
    this.after = after > this.after ? after : this.after;
    this.lost();
    switch (reason) {
      case "stale_session":
        break; // at once
      case "replaced": // by another page, or a copy of this browser's key
      case "revoked":
      case "distrusted":
        this.over = reason;
        this.clear();
        break;
      default:
        this.later = reason;
    }
  }
}

function keyOf(r: Ref): string {
  return `${r.job} ${r.chunk} ${r.attempt}`;
}

function plain(r: Ref): Ref {
  return { job: r.job, chunk: r.chunk, attempt: r.attempt };
}

// resultOf gives the guest's bytes as they are, which JSON can only if they are text.
function resultOf(o: Outcome): Result {
  const out: Result = { ...plain(o.ref), seconds: o.seconds };
  if (o.error === undefined) {
    try {
      out.output = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(o.output ?? new Uint8Array(0));
      if (out.output === "") {
        out.error = "wrote no result to standard output";
      }
    } catch {
      out.error = "standard output is not a result: it is not text";
    }
  } else {
    out.error = o.error || "it failed";
    if (o.class) {
      out.class = o.class;
    }
  }
  return out;
}
