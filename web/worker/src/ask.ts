// What a user asks of the gateway that served this page, by a token that is kept in memory
// alone and ends by itself.

export const maxModule = 64 << 20; // bytes, as the cluster takes

// Problem is an answer that is no success, in the words of who answered.
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly hint: string,
  ) {
    super(detail);
  }
}

export interface Who {
  name: string;
  role: string;
  may_change: boolean;
  ends_at: string | null;
}

export interface Metric {
  n: number;
  mean: number;
  ci95_low: number | null;
  ci95_high: number | null;
}

export interface Job {
  id: string;
  name: string;
  state: string;
  reason: string;
  waits?: string;
  warning?: string;
  owner: string;
  submitted_at: string;
  elapsed_seconds: number;
  chunks: { total: number; accepted: number };
  iterations: { total: number; accepted: number };
  rate_per_second: number | null;
  eta_seconds: number | null;
  workers: unknown[];
  aggregates: Record<string, Metric>;
}

const ended = ["completed", "failed", "partial", "cancelled", "timed_out"];

export function final(j: Job): boolean {
  return ended.includes(j.state);
}

const patience = 30_000; // ms, of one answer
const uploading = 600_000;
const silence = 20_000; // of a stream, in which something comes every 5 s
const longest = 8 << 20; // of one line, in characters

export class User {
  constructor(private readonly token: string) {}

  who(): Promise<Who> {
    return this.ask("GET", "/v1/whoami");
  }

  async jobs(most: number): Promise<Job[]> {
    return (await this.ask<{ jobs: Job[] }>("GET", `/v1/jobs?limit=${most}`)).jobs;
  }

  async stop(id: string): Promise<void> {
    await this.ask("POST", `/v1/jobs/${encodeURIComponent(id)}/stop`, "{}");
  }

  // submit has a module run. The same key again is the same job, so what may have been
  // taken can be sent once more.
  async submit(key: string, name: string, module: Blob, iterations: number): Promise<string> {
    const { hash } = await this.ask<{ hash: string }>("PUT", "/v1/artefacts", module, uploading);
    const spec = { key, name, artefact: hash, iterations };
    return (await this.ask<{ job: string }>("POST", "/v1/jobs", JSON.stringify({ spec }))).job;
  }

  // watch tells how a job is until it has ended, or quit says to stop.
  async watch(id: string, quit: AbortSignal, each: (j: Job) => void): Promise<void> {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), silence);
    try {
      const r = await this.fetch("GET", `/v1/jobs/${encodeURIComponent(id)}/watch`, undefined, AbortSignal.any([quit, silent.signal]));
      const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), silence);
        const lines = (rest + part.value).split("\n");
        rest = lines.pop()!;
        for (const line of lines) {
          if (line !== "") {
            const said = JSON.parse(line) as Job & { problem?: Told };
            if (said.problem) {
              throw problem(said.problem.status ?? 0, said.problem);
            }
            each(said);
          }
        }
        if (rest.length > longest) {
          throw new Error("a line that is too long");
        }
      }
    } finally {
      clearTimeout(timer);
      silent.abort();
    }
  }

  private async ask<T>(method: string, path: string, body?: BodyInit, within = patience): Promise<T> {
    return (await (await this.fetch(method, path, body, AbortSignal.timeout(within))).json()) as T;
  }

  private async fetch(method: string, path: string, body: BodyInit | undefined, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Authorization: "Bearer " + this.token };
    if (body !== undefined) {
      headers["Content-Type"] = typeof body === "string" ? "application/json" : "application/octet-stream";
    }
    const r = await fetch(path, { method, body: body ?? null, signal, headers });
    if (!r.ok) {
      throw problem(r.status, (await r.json().catch(() => ({}))) as Told);
    }
    return r;
  }
}

interface Told {
  status?: number;
  code?: string;
  detail?: string;
  hint?: string;
}

function problem(status: number, p: Told): Problem {
  return new Problem(status, p.code ?? "", p.detail ?? `status ${status}`, p.hint ?? "");
}
