import { Centrifuge } from "centrifuge";
import { Desk, maxResultsBytes, type Push, type Result, type State } from "./desk";
import { run } from "./guest";
import { Missing, Store } from "./store";
import { maxConfigBytes, maxModuleBytes, type Outcome, type Task } from "./task";

// A page's connection to its gateway: what there is to do comes over it, what became of
// it goes back. Everything is asked in one loop, one thing after the other.

const version = 1; // of what this client understands
const beatEvery = 10_000;
const shortest = 1000; // pauses after what failed
const longest = 30_000;
const patience = 15_000; // without a connection, before it asks by HTTP
const answering = 60_000; // by HTTP, results sent included
const download = 600_000; // of a module

// endings are the codes by which a gateway ends a connection for good, as the page has them.
// What is below 4500 centrifuge connects again after.
const endings: Readonly<Record<number, string>> = { 4501: "revoked", 4502: "replaced", 4503: "old" };

// ClientOptions configures a client.
export interface ClientOptions {
  worker: string; // id
  token: () => Promise<string>; // a good one of that worker, which may be the last one
  slots: number;
  memoryBytes: bigint;
  base?: string; // of the gateway; the page's own if it is missing
  realtime?: string; // where it connects; to the gateway if it is missing
  changed?: () => void; // something that status tells
}

// Status is what people are shown.
export interface Status {
  connected: boolean;
  attached: boolean;
  over?: string; // why it works no more
  trouble?: string; // the last thing that failed, until something succeeds
  waiting: number;
  running: number;
  kept: number;
  done: number;
}

export class Client {
  private readonly desk: Desk;
  private readonly store: Store;
  private readonly link: Centrifuge;
  private readonly base: string;
  private listening = false;
  private since = performance.now(); // when it began to listen, or lost the connection
  private closed = false;
  private attaching: Promise<unknown> | undefined; // the last attach
  private wake: () => void = () => {};
  private trouble: string | undefined;
  private finished = 0;

  constructor(private readonly o: ClientOptions) {
    this.base = o.base ?? location.origin;
    this.desk = new Desk(o.slots, 2 * o.slots, o.memoryBytes);
    this.store = new Store({ fetch: (hash) => this.get(`/v1/artefacts/${hash}`) });
    this.link = new Centrifuge(o.realtime ?? this.base.replace(/^http/, "ws") + "/v1/realtime", {
      getToken: o.token,
      data: { client: version },
      minReconnectDelay: shortest,
      maxReconnectDelay: longest,
    });
    const channel = this.link.newSubscription("node:" + o.worker);
    channel.on("subscribed", () => {
      this.desk.lost(); // it was the connection's
      this.listening = true;
      this.since = performance.now();
      this.tell();
    });
    channel.on("subscribing", () => {
      if (this.listening) {
        this.since = performance.now();
      }
      this.listening = false;
      this.tell();
    });
    channel.on("unsubscribed", (e) => this.end(e.reason));
    channel.on("publication", (e) => {
      this.desk.pushed(e.data as Push);
      this.tell();
    });
    this.link.on("connecting", (e) => this.troubled(e));
    this.link.on("error", (e) => this.troubled(e.error));
    this.link.on("disconnected", (e) => this.end(endings[e.code] ?? e.reason));
    channel.subscribe();
    this.link.connect();
    void this.loop();
  }

  status(): Status {
    return {
      ...this.desk.counts(),
      connected: this.reaches(),
      attached: this.desk.session !== 0n,
      done: this.finished,
      ...(this.desk.over === undefined ? {} : { over: this.desk.over }),
      ...(this.trouble === undefined ? {} : { trouble: this.trouble }),
    };
  }

  // close hands back what it has and leaves.
  async close(): Promise<void> {
    this.closed = true;
    await this.attaching?.catch(() => undefined); // or it would stay there, with nobody
    const session = this.desk.session;
    this.desk.clear();
    if (session !== 0n && this.reaches()) {
      await this.call("bye", { session: String(session) }).catch(() => undefined); // it is noticed by the connection's end
    }
    this.link.disconnect();
    this.tell();
  }

  // troubled keeps what a gateway says of why the page is not connected; what else there is
  // the page says by itself.
  private troubled(why: { code: number; message?: string; reason?: string }): void {
    if (why.code >= 1000 && why.code < 5000 && (why.code < 2000 || why.code >= 4000)) {
      this.trouble = why.reason ?? why.message;
      this.tell();
    }
  }

  private end(reason: string): void {
    if (!this.closed) {
      this.desk.over ??= reason;
      this.desk.clear();
    }
    this.tell();
  }

  private tell(): void {
    this.wake();
    this.o.changed?.();
  }

  private async loop(): Promise<void> {
    let beaten = 0;
    let failures = 0;
    while (!this.closed && this.desk.over === undefined) {
      let pause = beaten + beatEvery - performance.now();
      if (this.reaches()) {
        try {
          if (await this.ask(pause <= 0)) {
            beaten = performance.now();
            pause = beatEvery;
          }
          failures = 0;
          this.trouble = undefined;
          this.o.changed?.();
          if (this.closed) {
            break;
          }
        } catch (error) {
          if (codeOf(error) === 1409) {
            this.desk.lost();
          }
          this.trouble = messageOf(error);
          this.o.changed?.();
          failures++;
          const most = Math.min(longest, shortest * 2 ** failures);
          await sleep(shortest + Math.random() * (most - shortest));
          continue;
        }
      } else {
        pause = this.since + patience - performance.now();
      }
      this.work();
      if (!this.pressing()) {
        await Promise.race([sleep(Math.max(pause, 0)), new Promise<void>((go) => (this.wake = go))]);
      }
    }
    this.link.disconnect();
    this.o.changed?.();
  }

  // reaches reports whether the gateway can be asked: over the connection, or by HTTP once
  // there was none for a while. It is told nothing unasked then, and asks at each beat.
  private reaches(): boolean {
    return this.listening || performance.now() - this.since > patience;
  }

  // pressing is what cannot wait for the next beat.
  private pressing(): boolean {
    return this.reaches() && (this.desk.session === 0n || this.desk.behind || this.desk.results().length > 0);
  }

  // ask does the next thing at the gateway, and reports whether it has heard of this
  // worker.
  private async ask(due: boolean): Promise<boolean> {
    if (this.desk.later !== undefined) {
      const why = this.desk.later;
      this.desk.later = undefined;
      throw new Error(`the cluster gives this worker nothing at present: ${why}`);
    }
    if (this.desk.session === 0n) {
      this.attaching = this.call("attach", this.desk.attach(version));
      this.desk.attached((await this.attaching) as State);
      return true;
    }
    const session = String(this.desk.session);
    this.desk.behind ||= due && !this.listening;
    if (this.desk.behind) {
      this.desk.told((await this.call("assigned", { session })) as State);
    }
    const results = this.desk.results();
    if (results.length > 0) {
      const { verdicts } = (await this.complete({ session, results })) as { verdicts: string[] };
      this.desk.judged(results, verdicts);
    }
    if (!due) {
      return false;
    }
    const { seq } = (await this.call("beat", this.desk.beat(true))) as { seq: string };
    this.desk.beaten(seq);
    return true;
  }

  private async call(method: string, request: unknown): Promise<unknown> {
    return this.listening ? (await this.link.rpc(method, request)).data : this.post(method, JSON.stringify(request));
  }

  // post is a method by HTTP.
  private async post(method: string, text: string): Promise<unknown> {
    const answer = await this.get("/v1/rpc/" + method, text);
    const said = (await answer.json()) as { detail?: string };
    if (!answer.ok) {
      throw Object.assign(new Error(said.detail ?? `status ${answer.status}`), { code: 1000 + answer.status });
    }
    return said;
  }

  // complete sends results: over the connection if they are short.
  private async complete(request: { session: string; results: Result[] }): Promise<unknown> {
    const text = JSON.stringify(request);
    if (text.length <= maxResultsBytes && new TextEncoder().encode(text).length <= maxResultsBytes) {
      return this.call("complete", request);
    }
    return this.post("complete", text);
  }

  private async get(path: string, body?: string): Promise<Response> {
    return fetch(this.base + path, {
      signal: AbortSignal.timeout(body === undefined ? download : answering),
      headers: { Authorization: `Bearer ${await this.o.token()}` },
      ...(body === undefined ? {} : { method: "POST", body }),
    });
  }

  // work has what waits run, as far as there are slots.
  private work(): void {
    for (let next = this.desk.next(); next; next = this.desk.next()) {
      const { task, stop } = next;
      void this.compute(task, stop).then((outcome) => {
        if (this.desk.done(outcome)) {
          this.finished++;
        }
        this.tell();
      });
    }
  }

  private async compute(task: Task, stop: AbortSignal): Promise<Outcome> {
    try {
      const module = await this.store.get(task.spec.artefact, maxModuleBytes);
      const config = task.spec.config ? await this.store.get(task.spec.config, maxConfigBytes) : new Uint8Array(0);
      return await run(task, module, config, (done) => this.desk.progress(task.ref, done), stop);
    } catch (error) {
      const what = error instanceof Missing ? error.message : String(error);
      return { ref: task.ref, error: what.slice(0, 500), class: "infra", seconds: 0 };
    }
  }
}

function codeOf(error: unknown): number | undefined {
  return (error as { code?: number } | undefined)?.code;
}

function messageOf(error: unknown): string {
  return (error as { message?: string } | undefined)?.message ?? String(error);
}

function sleep(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
