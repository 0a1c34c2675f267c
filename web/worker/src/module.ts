import { maxModuleBytes, pageBytes } from "./task";
import { signatures } from "./wasi";

// What a host's executor asks of a module, and what a browser needs beside it: memory
// that is bounded, and there before the module is.

const wasi = "wasi_snapshot_preview1";
// own is where a module imports its memory from once it was prepared.
export const own = "skein";

// BadModule says why a module cannot be run: the work's fault.
export class BadModule extends Error {}

// Mismatch says that a module imports a function under another type.
export class Mismatch extends BadModule {}

// Prepared is a module whose memory is imported; without memory it has none.
export interface Prepared {
  code: Uint8Array;
  memory?: { initial: number; maximum: number };
}

const secType = 1;
const secImport = 2;
const secMemory = 5;
const secExport = 7;

// prepare checks a module and bounds its memory.
export function prepare(code: Uint8Array, pages: number): Prepared {
  if (code.length === 0) {
    throw new BadModule("the file is empty");
  }
  if (code.length > maxModuleBytes) {
    throw new BadModule(`${code.length} bytes, at most ${maxModuleBytes} are allowed`);
  }
  if (code.length < 8 || new DataView(code.buffer, code.byteOffset).getUint32(0, true) !== 0x6d736100) {
    throw new BadModule("not a WebAssembly file");
  }
  if (new DataView(code.buffer, code.byteOffset).getUint32(4, true) !== 1) {
    throw new BadModule("not WebAssembly of version 1");
  }
  const parts: Uint8Array[] = [code.subarray(0, 8)];
  const whole = new Reader(code, 8);
  let types: string[] = [];
  let imports: Uint8Array | undefined;
  let place = -1; // of the imports among parts
  let count = 0;
  let start = -1;
  let memory: Prepared["memory"];
  while (!whole.done()) {
    const from = whole.at;
    const id = whole.byte();
    const body = whole.take(whole.u32());
    if (place < 0 && id !== 0 && id >= secImport) {
      place = parts.push(new Uint8Array(0)) - 1;
    }
    switch (id) {
      case secType:
        types = functionTypes(new Reader(body, 0));
        break;
      case secImport:
        imports = body;
        count = checkImports(new Reader(body, 0), types);
        continue;
      case secMemory:
        memory = limits(new Reader(body, 0), pages);
        continue;
      case secExport:
        start = exportedStart(new Reader(body, 0));
    }
    parts.push(code.subarray(from, whole.at));
  }
  if (start < 0) {
    throw new BadModule("no function _start is exported: not a command");
  }
  if (start < count) {
    throw new BadModule("_start is an imported function");
  }
  if (memory) {
    parts[place] = withMemory(imports, count, memory);
  } else if (imports) {
    parts[place] = section(secImport, [imports]);
  }
  const out: Prepared = { code: join(parts) };
  if (memory) {
    out.memory = memory;
  }
  return out;
}

const valueTypes: Readonly<Record<number, string>> = {
  0x7f: "i32",
  0x7e: "i64",
  0x7d: "f32",
  0x7c: "f64",
  0x7b: "v128",
  0x70: "funcref",
  0x6f: "externref",
};

// functionTypes writes types as a host's executor does: i32i64_i32, v for nothing.
function functionTypes(r: Reader): string[] {
  const values = () => {
    let all = "";
    for (let n = r.u32(); n > 0; n--) {
      const type = valueTypes[r.byte()];
      if (type === undefined) {
        throw new BadModule("a type that is not known");
      }
      all += type;
    }
    return all || "v";
  };
  const out: string[] = [];
  for (let n = r.u32(); n > 0; n--) {
    if (r.byte() !== 0x60) {
      throw new BadModule("a type that is no function");
    }
    out.push(`${values()}_${values()}`);
  }
  return out;
}

function checkImports(r: Reader, types: string[]): number {
  const n = r.u32();
  for (let i = 0; i < n; i++) {
    const module = r.name();
    const name = r.name();
    const kind = r.byte();
    if (module !== wasi) {
      throw new BadModule(`imports ${module}.${name}; only functions of ${wasi} are there`);
    }
    if (kind !== 0) {
      throw new BadModule(`imports ${module}.${name}, which is not a function`);
    }
    const params = Object.hasOwn(signatures, name) ? signatures[name] : undefined;
    if (params === undefined) {
      throw new BadModule(`imports ${module}.${name}, which is not there`);
    }
    const type = types[r.u32()];
    const want = `${params || "v"}_${name === "proc_exit" ? "v" : "i32"}`;
    if (type !== want) {
      throw new Mismatch(`import func[${module}.${name}]: signature mismatch: ${type} != ${want}`);
    }
  }
  return n;
}

function exportedStart(r: Reader): number {
  let start = -1;
  for (let n = r.u32(); n > 0; n--) {
    const name = r.name();
    const kind = r.byte();
    const index = r.u32();
    if (name === "_start" && kind === 0) {
      start = index;
    }
  }
  return start;
}

function limits(r: Reader, pages: number): Prepared["memory"] {
  const n = r.u32();
  if (n === 0) {
    return undefined;
  }
  const flags = r.byte();
  if (n > 1 || flags > 1) {
    throw new BadModule("its memory is not one that can be used");
  }
  const initial = r.u32();
  const declared = flags === 1 ? r.u32() : pages;
  if (initial > pages) {
    throw new BadModule(`memory of ${initial} pages, at most ${pages} are allowed`);
  }
  if (declared < initial || declared > 65536) {
    throw new BadModule("its bounds of memory are invalid");
  }
  return { initial, maximum: Math.min(declared, pages) };
}

function withMemory(imports: Uint8Array | undefined, count: number, m: { initial: number; maximum: number }): Uint8Array {
  const r = new Reader(imports ?? new Uint8Array([0]), 0);
  r.u32();
  return section(secImport, [leb(count + 1), r.rest(), text(own), text("memory"), new Uint8Array([2, 1]), leb(m.initial), leb(m.maximum)]);
}

function section(id: number, body: Uint8Array[]): Uint8Array {
  const all = join(body);
  return join([new Uint8Array([id]), leb(all.length), all]);
}

function text(s: string): Uint8Array {
  const bytes = new TextEncoder().encode(s);
  return join([leb(bytes.length), bytes]);
}

function leb(n: number): Uint8Array {
  const out: number[] = [];
  for (; n > 0x7f; n = Math.floor(n / 128)) {
    out.push((n & 0x7f) | 0x80);
  }
  return new Uint8Array([...out, n]);
}

function join(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

// pagesOf is the bound of a job's memory in pages.
export function pagesOf(memoryBytes: string): number {
  return Math.min(65536, Math.floor(Number(memoryBytes) / pageBytes));
}

// Reader reads the binary format.
class Reader {
  constructor(
    private readonly b: Uint8Array,
    public at: number,
  ) {}

  done(): boolean {
    return this.at >= this.b.length;
  }

  byte(): number {
    const v = this.b[this.at++];
    if (v === undefined) {
      throw new BadModule("it is cut off");
    }
    return v;
  }

  u32(): number {
    let v = 0;
    for (let scale = 1; scale <= 2 ** 28; scale *= 128) {
      const c = this.byte();
      v += (c & 0x7f) * scale;
      if (c < 0x80) {
        if (v > 0xffffffff) {
          break;
        }
        return v;
      }
    }
    throw new BadModule("a number is too large");
  }

  take(n: number): Uint8Array {
    if (n > this.b.length - this.at) {
      throw new BadModule("it is cut off");
    }
    this.at += n;
    return this.b.subarray(this.at - n, this.at);
  }

  name(): string {
    return new TextDecoder().decode(this.take(this.u32()));
  }

  rest(): Uint8Array {
    return this.b.subarray(this.at);
  }
}
