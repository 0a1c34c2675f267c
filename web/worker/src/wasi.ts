import { ChaCha8 } from "./chacha8";
import { maxOutputBytes } from "./task";
import type { Words } from "./words";

// What a guest is answered, function by function as a host's executor answers it: a
// result may not depend on where it was computed. There are no files and no sockets,
// only standard input, output and error, which a guest may close.

// Errors of WASI.
const success = 0;
const badf = 8;
const fault = 21;
const inval = 28;
const nametoolong = 37;
const nosys = 52;
const notdir = 54;
const notsup = 58;
const perm = 63;

const epoch = 946_684_800_000_000_000n; // 2000-01-01
const tick = 1000n; // a clock advances by being read
const hour = 3_600_000_000_000n;
const forever = (1n << 63n) - 1n;
const blockDevice = 1;
// fileRights are all that concern files; the host's executor does not ask for them.
const fileRights = 0x08e001ffn;

// signatures are the parameters of all functions; all but proc_exit return an error.
export const signatures: Readonly<Record<string, string>> = {
  args_get: "i32i32",
  args_sizes_get: "i32i32",
  environ_get: "i32i32",
  environ_sizes_get: "i32i32",
  clock_res_get: "i32i32",
  clock_time_get: "i32i64i32",
  fd_advise: "i32i64i64i32",
  fd_allocate: "i32i64i64",
  fd_close: "i32",
  fd_datasync: "i32",
  fd_fdstat_get: "i32i32",
  fd_fdstat_set_flags: "i32i32",
  fd_fdstat_set_rights: "i32i64i64",
  fd_filestat_get: "i32i32",
  fd_filestat_set_size: "i32i64",
  fd_filestat_set_times: "i32i64i64i32",
  fd_pread: "i32i32i32i64i32",
  fd_prestat_get: "i32i32",
  fd_prestat_dir_name: "i32i32i32",
  fd_pwrite: "i32i32i32i64i32",
  fd_read: "i32i32i32i32",
  fd_readdir: "i32i32i32i64i32",
  fd_renumber: "i32i32",
  fd_seek: "i32i64i32i32",
  fd_sync: "i32",
  fd_tell: "i32i32",
  fd_write: "i32i32i32i32",
  path_create_directory: "i32i32i32",
  path_filestat_get: "i32i32i32i32i32",
  path_filestat_set_times: "i32i32i32i32i64i64i32",
  path_link: "i32i32i32i32i32i32i32",
  path_open: "i32i32i32i32i32i64i64i32i32",
  path_readlink: "i32i32i32i32i32i32",
  path_remove_directory: "i32i32i32",
  path_rename: "i32i32i32i32i32i32",
  path_symlink: "i32i32i32i32i32",
  path_unlink_file: "i32i32i32",
  poll_oneoff: "i32i32i32i32",
  proc_exit: "i32",
  proc_raise: "i32",
  random_get: "i32i32",
  sched_yield: "",
  sock_accept: "i32i32i32",
  sock_recv: "i32i32i32i32i32i32",
  sock_send: "i32i32i32i32i32",
  sock_shutdown: "i32i32",
};

// Exit ends a guest at its own wish.
export class Exit {
  constructor(readonly code: number) {}
}

// TooMuch ends a guest that wrote more than a result may have.
export class TooMuch {}

// Given is all that a guest can see.
export interface Given {
  memory: WebAssembly.Memory | undefined;
  env: string[];
  stdin: Uint8Array;
  random: ChaCha8;
  words: Words;
}

// WASI serves one guest.
export class WASI {
  // ended is set when the guest must not go on, whatever it catches.
  ended: Exit | TooMuch | undefined;
  private readonly open = [true, true, true];
  private readonly out: Uint8Array[] = [];
  private written = 0;
  private read = 0;
  private now = 0n;
  private view = new DataView(new ArrayBuffer(0));

  constructor(private readonly given: Given) {}

  output(): Uint8Array {
    const all = new Uint8Array(this.written);
    let at = 0;
    for (const part of this.out) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  // functions are those that a guest imports, by name. Numbers of 64 bits are bigint.
  functions(): Record<string, (...args: never[]) => number> {
    const notThere = (fd: number) => (this.has(fd) ? notdir : badf);
    const at = (fd: number, p: number, n: number) => this.path(p, n) || notThere(fd);
    const all: Record<string, (...args: never[]) => number> = {
      args_get: (argv: number, buf: number) => this.list(["job"], argv, buf),
      args_sizes_get: (count: number, size: number) => this.sizes(["job"], count, size),
      environ_get: (environ: number, buf: number) => this.list(this.given.env, environ, buf),
      environ_sizes_get: (count: number, size: number) => this.sizes(this.given.env, count, size),
      clock_res_get: (id: number, result: number) => (id >>> 0 > 1 ? inval : this.put64(result, tick)),
      clock_time_get: (id: number, _precision: bigint, result: number) => this.time(id, result),
      fd_advise: (fd: number, _offset: bigint, _length: bigint, advice: number) => (!this.has(fd) ? badf : (advice & 0xff) > 5 ? inval : success),
      fd_allocate: (fd: number, offset: bigint, length: bigint) => this.allocate(fd, offset, length),
      fd_close: (fd: number) => this.close(fd),
      fd_datasync: (fd: number) => (this.has(fd) ? success : badf),
      fd_fdstat_get: (fd: number, result: number) => this.fdstat(fd, result),
      fd_fdstat_set_flags: (fd: number, flags: number) => (flags & 0x1a ? inval : !this.has(fd) ? badf : flags & 4 ? nosys : success),
      fd_fdstat_set_rights: () => nosys,
      fd_filestat_get: (fd: number, result: number) => this.filestat(fd, result),
      fd_filestat_set_size: (fd: number) => (this.has(fd) ? nosys : badf),
      fd_filestat_set_times: (fd: number, _atim: bigint, _mtim: bigint, flags: number) => (this.has(fd) ? this.setTimes(flags) || broken() : badf),
      fd_pread: (fd: number, iovs: number, n: number, _offset: bigint, result: number) => this.positioned(fd, iovs, n, result, true),
      fd_prestat_get: (fd: number, result: number) => (this.has(fd) ? this.put64(result, 0n) : badf),
      fd_prestat_dir_name: (fd: number, p: number, n: number) => (!this.has(fd) ? badf : n !== 0 ? nametoolong : this.inside(p, 0) ? success : fault),
      fd_pwrite: (fd: number, iovs: number, n: number, _offset: bigint, result: number) => this.positioned(fd, iovs, n, result, false),
      fd_read: (fd: number, iovs: number, n: number, result: number) => this.readv(fd, iovs, n, result),
      fd_readdir: (_fd: number, _buf: number, n: number) => (n >>> 0 < 24 ? inval : badf),
      fd_renumber: (fd: number, to: number) => (!this.has(fd) || to < 0 ? badf : notsup),
      fd_seek: (fd: number) => (this.has(fd) ? nosys : badf),
      fd_sync: (fd: number) => (this.has(fd) ? success : badf),
      fd_tell: (fd: number) => (this.has(fd) ? nosys : badf),
      fd_write: (fd: number, iovs: number, n: number, result: number) => this.writev(fd, iovs, n, result),
      path_create_directory: at,
      path_filestat_get: (fd: number, _flags: number, p: number, n: number) => at(fd, p, n),
      path_filestat_set_times: (fd: number, _flags: number, p: number, n: number, _atim: bigint, _mtim: bigint, flags: number) => this.setTimes(flags) || at(fd, p, n),
      path_link: (fd: number, _flags: number, p: number, n: number) => at(fd, p, n),
      path_open: (fd: number, _flags: number, p: number, n: number) => at(fd, p, n),
      path_readlink: (fd: number, p: number, n: number, _buf: number, size: number) => (n === 0 || size === 0 ? inval : at(fd, p, n)),
      path_remove_directory: at,
      path_rename: at,
      path_symlink: (_p: number, _n: number, fd: number) => notThere(fd),
      path_unlink_file: at,
      poll_oneoff: (from: number, to: number, n: number, result: number) => this.poll(from >>> 0, to >>> 0, n >>> 0, result),
      proc_exit: (code: number) => this.stop(new Exit(code >>> 0)),
      proc_raise: () => nosys,
      random_get: (buf: number, n: number) => this.random(buf, n),
      sched_yield: () => success,
      sock_accept: () => badf,
      sock_recv: () => badf,
      sock_send: (_fd: number, _data: number, _n: number, flags: number) => (flags !== 0 ? notsup : badf),
      sock_shutdown: () => badf,
    };
    for (const [name, answer] of Object.entries(all)) {
      all[name] = (...args: never[]) => {
        if (this.ended) {
          throw this.ended;
        }
        return answer(...args);
      };
    }
    return all;
  }

  private stop(how: Exit | TooMuch): never {
    this.ended = how;
    throw how;
  }

  private has(fd: number): boolean {
    return this.open[fd] === true;
  }

  // memory is the guest's; its buffer is another one after it has grown.
  private memory(): DataView {
    const buffer = this.given.memory?.buffer ?? broken();
    if (this.view.buffer !== buffer) {
      this.view = new DataView(buffer);
    }
    return this.view;
  }

  private inside(p: number, n: number): boolean {
    return (p >>> 0) + (n >>> 0) <= this.memory().byteLength;
  }

  private bytes(p: number, n: number): Uint8Array | undefined {
    return this.inside(p, n) ? new Uint8Array(this.memory().buffer, p >>> 0, n >>> 0) : undefined;
  }

  private put32(p: number, v: number): number {
    if (!this.inside(p, 4)) {
      return fault;
    }
    this.memory().setUint32(p >>> 0, v, true);
    return success;
  }

  private put64(p: number, v: bigint): number {
    if (!this.inside(p, 8)) {
      return fault;
    }
    this.memory().setBigUint64(p >>> 0, v, true);
    return success;
  }

  private list(values: string[], offsets: number, buf: number): number {
    const size = sizeOf(values);
    if (!this.inside(offsets, values.length * 4) || !this.inside(buf, size)) {
      return fault;
    }
    let at = buf >>> 0;
    values.forEach((v, i) => {
      this.put32((offsets >>> 0) + 4 * i, at);
      this.bytes(at, v.length + 1)!.set(new TextEncoder().encode(v + "\0"));
      at += v.length + 1;
    });
    return success;
  }

  private sizes(values: string[], count: number, size: number): number {
    return this.put32(count, values.length) || this.put32(size, sizeOf(values));
  }

  private tell(): bigint {
    this.now += tick;
    return this.now;
  }

  private time(id: number, result: number): number {
    switch (id) {
      case 0:
        return this.put64(result, epoch + this.tell());
      case 1:
        return this.put64(result, this.tell());
    }
    return inval;
  }

  // setTimes reads the clock as the change of a file's times does, before it fails.
  private setTimes(flags: number): number {
    for (const both of [3, 12]) {
      if ((flags & both) === both) {
        return inval;
      }
      if (both === 3 ? flags & 2 : (flags & 8) !== 0 && !(flags & 2)) {
        this.tell();
      }
    }
    return success;
  }

  private allocate(fd: number, offset: bigint, length: bigint): number {
    if (!this.has(fd)) {
      return badf;
    }
    const tail = BigInt.asIntN(64, offset + length);
    return tail < 0n ? inval : tail === 0n ? success : nosys;
  }

  private close(fd: number): number {
    if (!this.has(fd)) {
      return badf;
    }
    this.open[fd] = false;
    return success;
  }

  private fdstat(fd: number, result: number): number {
    const into = this.bytes(result, 24);
    if (!into) {
      return fault;
    }
    if (!this.has(fd)) {
      return badf;
    }
    into.fill(0);
    into[0] = blockDevice;
    this.memory().setBigUint64((result >>> 0) + 8, fileRights, true);
    return success;
  }

  private filestat(fd: number, result: number): number {
    const into = this.bytes(result, 64);
    if (!into) {
      return fault;
    }
    if (!this.has(fd)) {
      return badf;
    }
    into.fill(0);
    into[16] = blockDevice;
    into[24] = 1; // link
    return success;
  }

  // each calls use with the pieces of memory that a list names, until that says stop;
  // it returns an error. Who reads skips the empty ones, wherever they are.
  private each(iovs: number, n: number, reads: boolean, use: (piece: Uint8Array) => number | "stop"): number {
    const size = (n << 3) >>> 0;
    if (!this.inside(iovs, size)) {
      return fault;
    }
    for (let at = iovs >>> 0; at < (iovs >>> 0) + size; at += 8) {
      const length = this.memory().getUint32(at + 4, true);
      if (reads && length === 0) {
        continue;
      }
      const piece = this.bytes(this.memory().getUint32(at, true), length);
      if (!piece) {
        return fault;
      }
      const how = use(piece);
      if (how === "stop") {
        break;
      }
      if (how !== success) {
        return how;
      }
    }
    return success;
  }

  private readv(fd: number, iovs: number, n: number, result: number): number {
    if (!this.has(fd)) {
      return badf;
    }
    let sum = 0;
    const wrong = this.each(iovs, n, true, (piece) => {
      if (fd !== 0) {
        return badf;
      }
      const part = this.given.stdin.subarray(this.read, this.read + piece.length);
      piece.set(part);
      this.read += part.length;
      sum += part.length;
      return part.length < piece.length ? "stop" : success;
    });
    return wrong || this.put32(result, sum);
  }

  private writev(fd: number, iovs: number, n: number, result: number): number {
    if (!this.has(fd)) {
      return badf;
    }
    let sum = 0;
    const wrong = this.each(iovs, n, false, (piece) => {
      if (fd === 0) {
        return badf;
      }
      sum += piece.length;
      if (fd === 2) {
        this.given.words.write(piece);
        return success;
      }
      if (this.written + piece.length > maxOutputBytes) {
        this.stop(new TooMuch());
      }
      this.written += piece.length;
      this.out.push(piece.slice());
      return success;
    });
    return wrong || this.put32(result, sum);
  }

  // positioned is reading or writing at a place, which no stream can.
  private positioned(fd: number, iovs: number, n: number, result: number, reads: boolean): number {
    if (!this.has(fd)) {
      return badf;
    }
    return this.each(iovs, n, reads, (piece) => (piece.length === 0 ? success : badf)) || this.put32(result, 0);
  }

  private random(buf: number, n: number): number {
    const into = this.bytes(buf, n);
    if (!into) {
      return fault;
    }
    this.given.random.fill(into);
    return success;
  }

  // path refuses what leads out of where it begins.
  private path(p: number, n: number): number {
    const text = this.bytes(p, n);
    if (!text) {
      return fault;
    }
    if (text[0] === 47) {
      return perm;
    }
    const parts: Uint8Array[] = [];
    for (let from = 0; from <= text.length; ) {
      const slash = text.indexOf(47, from);
      const end = slash < 0 ? text.length : slash;
      const part = text.subarray(from, end);
      from = end + 1;
      if (part.length === 2 && part[0] === 46 && part[1] === 46) {
        if (parts.pop() === undefined) {
          return perm;
        }
      } else if (part.length > 1 || (part.length === 1 && part[0] !== 46)) {
        parts.push(part);
      }
    }
    try {
      for (const part of parts) {
        new TextDecoder("utf-8", { fatal: true }).decode(part);
      }
    } catch {
      return perm;
    }
    return success;
  }

  private poll(from: number, to: number, n: number, result: number): number {
    if (n === 0) {
      return inval;
    }
    if (!this.inside(from, Math.imul(n, 48))) {
      return fault;
    }
    const events = this.bytes(to, Math.imul(n, 32));
    if (!events) {
      return fault;
    }
    events.fill(0);
    if (this.put32(result, n) !== success) {
      return fault;
    }
    if (n > 0xffffffff / 48) {
      broken(); // it does not lie in memory
    }
    const m = this.memory();
    const all = new Uint8Array(m.buffer);
    const waiting: { at: number; type: number }[] = [];
    let sleep = forever;
    let count = 0;
    const put = (at: number, type: number, errno: number) => {
      const event = to + 32 * count++;
      all.copyWithin(event, at, at + 8);
      m.setUint16(event + 8, errno, true);
      m.setUint32(event + 10, type, true);
    };
    for (let i = 0; i < n; i++) {
      const at = from + 48 * i;
      const type = m.getUint8(at + 8);
      if (type === 0) {
        const flags = m.getUint16(at + 40, true);
        if (flags !== 0) {
          return flags === 1 ? notsup : inval;
        }
        const wait = m.getBigInt64(at + 24, true);
        sleep = wait < sleep ? wait : sleep;
        put(at, type, success);
        continue;
      }
      if (type > 2) {
        return inval;
      }
      const fd = m.getInt32(at + 16, true);
      if (fd < 0) {
        return badf;
      }
      if (type === 1 && this.has(fd)) {
        waiting.push({ at, type });
      } else {
        put(at, type, this.has(fd) ? notsup : badf);
      }
    }
    if (count === n) {
      if (sleep > 0n) {
        this.now += sleep < hour ? sleep : hour;
      }
      return success;
    }
    if (!this.has(0)) {
      return badf;
    }
    for (const w of waiting) {
      put(w.at, w.type, success); // there is always something to read, if only the end
    }
    return success;
  }
}

// broken is where the host's executor traps.
function broken(): never {
  throw new WebAssembly.RuntimeError("runtime error");
}

function sizeOf(values: string[]): number {
  return values.reduce((sum, v) => sum + v.length + 1, 0);
}
