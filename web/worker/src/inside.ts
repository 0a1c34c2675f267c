import { guestRandom } from "./chacha8";
import { BadModule, Mismatch, own, pagesOf, prepare, type Prepared } from "./module";
import { maxConfigBytes, maxOutputBytes, type Load, type Told } from "./task";
import { Exit, TooMuch, WASI } from "./wasi";
import { clip, oneLine, Words } from "./words";

// The script of the Web Worker in which guests run, one after the other. It asks
// nothing of the network: what it needs is handed to it.

interface Inside {
  onmessage: ((e: MessageEvent<Load>) => void) | null;
  postMessage(told: Told, transfer?: Transferable[]): void;
}
const inside = self as unknown as Inside;

// Kept is the module that ran last, compiled.
interface Kept {
  key: string;
  module: WebAssembly.Module;
  memory: Prepared["memory"];
}
let kept: Kept | undefined;

inside.onmessage = (e) => {
  void perform(e.data).then(
    (told) => inside.postMessage(told, told.kind === "done" && told.output ? [told.output.buffer as ArrayBuffer] : []),
    (error: unknown) => inside.postMessage({ kind: "done", infra: true, seconds: 0, error: clip("runner: " + oneLine(String(error))) }),
  );
};

async function perform(load: Load): Promise<Told> {
  const { task, config } = load;
  if (config.length > maxConfigBytes) {
    return { kind: "done", infra: true, seconds: 0, error: `config: ${config.length} bytes, at most ${maxConfigBytes} are allowed` };
  }
  const words = new Words((done) => inside.postMessage({ kind: "progress", done }));
  let guest: Kept;
  try {
    guest = await compiled(load);
  } catch (error) {
    if (error instanceof BadModule || error instanceof WebAssembly.CompileError) {
      return { kind: "done", infra: false, seconds: 0, error: (error instanceof Mismatch ? "trap: " : "module cannot be run: ") + clip(oneLine(error.message)) };
    }
    throw error; // such as too little memory
  }
  const memory = guest.memory && new WebAssembly.Memory(guest.memory);
  const wasi = new WASI({
    memory,
    words,
    env: [
      `SKEIN_ITERATIONS=${BigInt(task.iterations)}`,
      `SKEIN_SEED_OFFSET=${BigInt(task.offset)}`,
      `SKEIN_CHUNK_ID=${task.ref.chunk}`,
      `SKEIN_SEED=${BigInt(task.spec.seed)}`,
    ],
    stdin: config,
    random: await guestRandom(task.spec.seed, task.offset),
  });
  inside.postMessage({ kind: "loaded" });
  const began = performance.now();
  let caught: unknown;
  try {
    const functions = wasi.functions() as unknown as WebAssembly.ModuleImports;
    const instance = new WebAssembly.Instance(guest.module, {
      wasi_snapshot_preview1: functions,
      ...(memory ? { [own]: { memory } } : {}),
    });
    (instance.exports["_start"] as () => void)();
  } catch (error) {
    caught = error;
  }
  const seconds = (performance.now() - began) / 1000;
  const how = wasi.ended ?? caught;
  if (how === undefined || (how instanceof Exit && how.code === 0)) {
    return { kind: "done", output: wasi.output(), infra: false, seconds };
  }
  const said = words.last();
  const error = reason(how) + (said === "" ? "" : "; standard error: " + said);
  return { kind: "done", error, infra: ours(how, memory, guest.memory?.maximum ?? 0), seconds };
}

async function compiled(load: Load): Promise<Kept> {
  if (load.module) {
    kept = undefined; // one at a time: they are large
    const ready = prepare(load.module, pagesOf(load.task.spec.memory_bytes));
    kept = { key: load.key, module: await WebAssembly.compile(ready.code as BufferSource), memory: ready.memory };
  }
  if (kept?.key !== load.key) {
    throw new Error("no module");
  }
  return kept;
}

// traps are the words of a host's executor for what engines call otherwise.
const traps: [RegExp, string][] = [
  [/unreachable/i, "unreachable"],
  [/divide by zero|remainder by zero|division by zero/i, "integer divide by zero"],
  [/float unrepresentable|invalid conversion/i, "invalid conversion to integer"],
  [/unrepresentable|integer overflow/i, "integer overflow"],
  [/memory access out of bounds|index out of bounds|out of bounds memory/i, "out of bounds memory access"],
  [/table/i, "invalid table access"],
  [/signature mismatch|null function/i, "indirect call type mismatch"],
];

function reason(how: unknown): string {
  if (how instanceof Exit) {
    return `exit code ${how.code}`;
  }
  if (how instanceof TooMuch) {
    return `wrote more than ${maxOutputBytes} bytes to standard output`;
  }
  const said = how instanceof Error ? how.message : String(how);
  return "trap: " + (traps.find(([form]) => form.test(said))?.[1] ?? clip(oneLine(said)));
}

// ours reports that a guest failed for what this browser lacks and a host has: stack,
// or memory within the job's bound.
function ours(how: unknown, memory: WebAssembly.Memory | undefined, most: number): boolean {
  if (how instanceof RangeError || (how instanceof Error && how.name === "InternalError")) {
    return true;
  }
  if (!memory || how instanceof TooMuch) {
    return false;
  }
  try {
    memory.grow(most - memory.buffer.byteLength / (64 << 10));
    return false;
  } catch {
    return true;
  }
}
