// What the API says, as far as the page shows it. Fields may be missing in answers
// of older daemons; package api has what they mean.

export type Health = string;

export interface LeaseSummary {
  holder: string; term: number; mode: string; voters: number; profile: string;
  renewed_seconds: number | null; expires_seconds: number | null; tenure_seconds: number | null;
  publisher: string; publishing: boolean; publish_why: string; abstaining: string[]; blocked: string;
}

export interface Status {
  cluster: string; version: string; state: string; reasons: string[]; role: string; term: number; uptime_seconds: number;
  lease: LeaseSummary;
  members: { total: number; joining: number; alive: number; suspect: number; dead: number; left: number };
  mesh: { backend: string; interface: string; address: string; listen: string; peer_count: number; oldest_handshake_seconds: number | null };
  log: { events: number; sources: number; size_bytes: number; state_hash: string; snapshot: { taken_at?: string; position?: number } | null; checked_at?: string; check_problem?: string; forked?: Source[] };
  worker: { slots: number; running: number; queued: number; kept: number; draining?: boolean };
  jobs: { pending: number; running: number; completed: number; failed: number; partial: number; cancelled: number; timeout: number };
}

export interface Member {
  node: string; self: boolean; addr: string; addr6: string; state: Health; stopped?: boolean; role: string; voter: boolean; publisher: boolean; term: number;
  seen_seconds: number | null; rtt_seconds: number | null; path: string; version: string; zone: string; priority: number; witness: boolean;
  lag_events: number | null; endpoints: string[]; stale: boolean; nat: boolean; skew_seconds: number | null; sponsor: boolean;
  cert_expires_at: string | null; removed: boolean; gone_at: string | null; reason: string;
}

export interface Link {
  from: string; to: string; state: Health; stopped?: boolean; path: string; handshake_seconds: number | null; rtt_seconds: number | null;
  receive_bytes_per_second: number | null; transmit_bytes_per_second: number | null; reported_at: string | null;
}

export interface Lease extends LeaseSummary {
  ready: boolean | null; promised: number;
  config: { epoch: number; term: number; voters: string[]; mode: string };
}

export interface Term {
  term: number; holder: string; started_at: string; ended_at: string | null; told_at: string | null; cause: string;
  last_evidence_at: string | null; gap_seconds: number | null;
  successor: string; previous: string; grants: string[]; voters: string[];
}

export interface Worker {
  node: string; live: Health; stopped?: boolean; connected: boolean; ready: boolean; draining: boolean; progress: string; verdict: string; slots: number;
  kind?: string; via?: string; workers?: number; owners?: { owner: string; kind: string; workers: number }[]; // of all outside workers at a gateway
  owner?: string; accept?: string; accept_names?: string[]; assigned: number; window: number; backlog_iterations: number;
  drain_seconds: number; rate_per_second: number | null; trusted: boolean; excluded_seconds: number | null;
}

export interface Summary {
  n: number; mean: number; min: number; max: number; ci95_low: number | null; ci95_high: number | null; relative_error: number | null;
  p50: number | null; p90: number | null; p99: number | null;
}

export interface Waiting {
  since: string; workers: number; eligible: number; hint: string;
  reasons: { reason: string; text: string; workers: number; examples: string[] }[];
}

export interface Job {
  id: string; name: string; state: string; reason: string; waits?: string; waiting?: Waiting; warning?: string; stopped_by?: string; stop_reason?: string;
  owner: string; submitted_at: string; finished_at: string | null; elapsed_seconds: number; holder: string; term: number;
  chunks: { total: number; pending: number; assigned: number; accepted: number; failed: number; parked: number };
  iterations: { total: number; accepted: number };
  attempts: { assigned: number; failed: number; reclaimed: number };
  rate_per_second: number | null; eta_seconds: number | null;
  workers?: { node: string; assigned: number; accepted: number }[];
  aggregates?: Record<string, Summary>;
  failures?: { chunk: number; attempt: number; worker: string; at: string; reason: string; final: boolean }[];
  map?: { chunks: number; step: number; runs: { state: string; count: number }[] };
  spec?: { after?: string[] };
  anomalies?: { chunk: number; worker: string; reason: string }[];
}

export interface RunStep {
  name: string; role?: string; state: string; reason: string; after?: string[]; after_failed?: string[]; after_done?: string[]; on_failure?: string;
  many?: boolean; total: number; counts: Record<string, number>; disputed?: number;
  instances: { index: number; state: string; try: number; job?: string; reason?: string; disputed?: boolean; item?: unknown; outputs?: Record<string, unknown> }[];
}

export interface Run {
  id: string; name: string; owner: string; state: string; reason: string; round: number; submitted_at: string; finished_at: string | null; elapsed_seconds: number;
  stopped_by?: string; stop_reason?: string; place?: number; group?: string; schedule?: string; disputed?: boolean; steps?: RunStep[];
}

export interface Schedule {
  id: string; name: string; owner: string; workflow: string; cron: string; zone: string; missed: string; overlap: string; paused: boolean; next: string[]; open_runs: number;
  last: { at: string; logged_at: string; run?: string; skipped?: string; missed?: number }[];
}

export interface Onion {
  tor: { enabled: boolean; state: string; version: string; bootstrap_percent: number; restarts: number; reason: string; node: string };
  addresses: {
    address: string; set_at: string; actor: string; clients: string[]; keepers: string[]; key: boolean; publisher: string; publishing: boolean;
    term: number; descriptors: number; published_at: string | null; foreign_at: string | null; points: Record<string, number>; size: number;
    fenced: boolean; solo: boolean;
  }[];
  hosts: {
    node: string; health: Health; stopped?: boolean; address: string; weight: number; points: number; asked: number; healthy: boolean; serving: boolean;
    keys: number; reason: string; left_out?: string; backends?: { name: string; healthy: boolean }[];
  }[];
  check: string; problems: string[];
}

export interface Source { node: string; inc: number }

export interface Entry {
  source: Source; seq: number; hlc: number; term: number; kind: string; body: unknown; prev: string; hash: string; text?: string;
}

export interface Problem { code: string; detail: string; hint?: string; retry_after_seconds: number | null }

export interface Series {
  job: string; from: string; to: string; step_seconds: number; total: number; iterations: number[]; rate_per_second: number[]; compacted: boolean;
  metrics: { name: string; n: number[]; mean: (number | null)[]; low: (number | null)[]; high: (number | null)[] }[]; metrics_omitted: number;
  workers: { node: string; iterations: number[] }[]; failures: { reason: string; reclaimed: boolean; attempts: number[] }[];
}
