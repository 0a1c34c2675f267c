import type { Load, Outcome, Task, Told } from "./task";

// Guests run in Web Workers, one in each at a time: what never ends is ended with its
// worker, and the page goes on meanwhile.

// INSIDE is the name of the worker's script, which is built before this one.
declare const INSIDE: string;

const loadSeconds = 120; // to compile a module; not the chunk's time

interface Types {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}

// address is that of the worker's script; the policy of the page knows no other.
const address = (() => {
  const url = new URL(INSIDE, import.meta.url).href;
  const types = (globalThis as { trustedTypes?: Types }).trustedTypes;
  return types ? types.createPolicy("skein-worker", { createScriptURL: () => url }).createScriptURL(url) : url;
})();

// Slot is a worker and the module that it has compiled.
interface Slot {
  worker: Worker;
  key: string;
}

let idle: Slot[] = [];

// rest ends the workers that have nothing to do.
export function rest(): void {
  for (const slot of idle) {
    slot.worker.terminate();
  }
  idle = [];
}

// run computes a chunk in a worker that has nothing to do, or in a new one. It never
// rejects: whatever goes wrong is an outcome. Stop ends it before its end.
export function run(
  t: Task,
  module: Uint8Array,
  config: Uint8Array,
  report: (done: bigint) => void,
  stop?: AbortSignal,
): Promise<Outcome> {
  const key = `${t.spec.artefact} ${t.spec.memory_bytes}`;
  const began = performance.now();
  return new Promise((resolve) => {
    let slot: Slot;
    let timers: number[] = [];
    let loaded = false;
    let moved = false;
    const forget = () => {
      timers.forEach(clearTimeout);
      timers = [];
      stop?.removeEventListener("abort", stopped);
    };
    const kill = (error: string, how?: Outcome["class"]) => {
      forget();
      slot?.worker.terminate();
      resolve({ ref: t.ref, error, ...(how ? { class: how } : {}), seconds: (performance.now() - began) / 1000 });
    };
    const stopped = () => kill("stopped", "returned");
    if (stop?.aborted) {
      stopped();
      return;
    }
    const within = (seconds: number, then: () => void) => {
      timers.push(setTimeout(then, Math.min(seconds * 1000, 2 ** 31 - 1)) as unknown as number);
    };
    const tooLong = (seconds: number) => kill(`ran longer than the limit of ${seconds}s`);
    const at = idle.findIndex((s) => s.key === key);
    try {
      slot = idle.splice(at < 0 ? idle.length - 1 : at, 1)[0] ?? { worker: new Worker(address, { type: "module" }), key: "" };
    } catch (error) {
      kill(`start runner: ${String(error)}`, "infra");
      return;
    }
    stop?.addEventListener("abort", stopped);
    slot.worker.onerror = (e) => kill(`start runner: ${e.message || "the script does not load"}`, "infra");
    slot.worker.onmessageerror = () => kill("runner: a message cannot be read", "infra");
    slot.worker.onmessage = (e: MessageEvent<Told>) => {
      const told = e.data;
      switch (told.kind) {
        case "loaded": {
          loaded = true;
          timers.forEach(clearTimeout);
          const soft = t.spec.timeout_seconds;
          const hard = Math.max(soft, t.spec.hard_timeout_seconds ?? 0);
          within(soft, () => moved || tooLong(soft));
          within(hard, () => tooLong(hard));
          break;
        }
        case "progress":
          moved = true;
          report(told.done);
          break;
        case "done":
          forget();
          if (told.infra || !loaded) {
            slot.worker.terminate(); // it holds no module that can be used
          } else {
            slot.key = key;
            idle.push(slot);
          }
          resolve({
            ref: t.ref,
            seconds: told.seconds,
            ...(told.output ? { output: told.output } : {}),
            ...(told.error ? { error: told.error } : {}),
            ...(told.infra ? { class: "infra" as const } : {}),
          });
      }
    };
    within(loadSeconds, () => kill(`module took longer than ${loadSeconds}s to load`));
    const load: Load = { task: t, key, config };
    if (slot.key !== key) {
      load.module = module;
    }
    slot.worker.postMessage(load);
  });
}
