// Ref names an attempt at a chunk.
export interface Ref {
  job: string;
  chunk: number;
  attempt: number;
}

// Spec is what a job's chunks have in common. Integers of 64 bits are decimal.
export interface Spec {
  artefact: string;
  config?: string;
  iterations: string;
  chunk: string;
  seed: string;
  memory_bytes: string;
  timeout_seconds: number;
  hard_timeout_seconds?: number; // of an attempt that shows progress
}

// Task is one attempt at one chunk.
export interface Task {
  ref: Ref;
  spec: Spec;
  offset: string;
  iterations: string;
}

// Outcome is how an attempt ended. Without class an error is the work's own; "infra"
// says nothing of the work, "returned" was stopped before its end.
export interface Outcome {
  ref: Ref;
  output?: Uint8Array;
  error?: string;
  class?: "infra" | "returned";
  seconds: number;
}

// Limits are those of a host's executor.
export const maxModuleBytes = 64 << 20;
export const maxConfigBytes = 1 << 20;
export const maxOutputBytes = 1 << 20;
export const pageBytes = 64 << 10;

// Load is what a guest is started with, and Told what its worker says of it.
export interface Load {
  task: Task;
  key: string; // of the module under its bound of memory
  module?: Uint8Array; // missing: the one that this worker has
  config: Uint8Array;
}

export type Told =
  | { kind: "loaded" }
  | { kind: "progress"; done: bigint }
  | { kind: "done"; output?: Uint8Array; error?: string; infra: boolean; seconds: number };
