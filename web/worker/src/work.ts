// What a page needs to compute chunks of jobs.
export { ChaCha8, guestRandom } from "./chacha8";
export { Client, type ClientOptions, type Status } from "./client";
export { Identity, Refused, type Registered } from "./identity";
export { rest, run } from "./guest";
export { Missing, Store } from "./store";
export { maxConfigBytes, maxModuleBytes } from "./task";
export type { Outcome, Ref, Spec, Task } from "./task";
