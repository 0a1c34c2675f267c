// What a guest wrote to standard error, and what becomes of it: its last words, and how
// far it is. The rules are those of a host's executor.

const maxWords = 4 << 10;
const maxReason = 512;
const mark = "skein-progress ";
const maxLine = mark.length + 20;

// Words keeps the end of a guest's standard error and reports progress.
export class Words {
  private tail = new Uint8Array(0);
  private line = "";
  private long = false; // too long for a line of progress: wait for its end
  private told = -Infinity;

  constructor(private readonly report: (done: bigint) => void) {}

  write(p: Uint8Array): void {
    const done = this.scan(p);
    const now = performance.now();
    if (done !== undefined && done > 0n && now - this.told >= 100) {
      this.told = now;
      this.report(done);
    }
    const all = new Uint8Array(this.tail.length + p.length);
    all.set(this.tail);
    all.set(p, this.tail.length);
    this.tail = all.slice(Math.max(0, all.length - maxWords));
  }

  // last is the useful part: from the last line that announces a crash, else its end.
  last(): string {
    const text = latin(this.tail);
    for (const begins of ["panic: ", "fatal error: ", "thread '"]) {
      const at = text.lastIndexOf("\n" + begins);
      if (at >= 0) {
        return clip(oneLine(this.tail.subarray(at)));
      }
      if (text.startsWith(begins)) {
        return clip(oneLine(this.tail));
      }
    }
    const line = oneLine(this.tail);
    const bytes = new TextEncoder().encode(line);
    return bytes.length > maxReason ? "..." + oneLine(bytes.subarray(bytes.length - maxReason)) : line;
  }

  private scan(p: Uint8Array): bigint | undefined {
    let done: bigint | undefined;
    for (let at = 0; at < p.length; ) {
      const newline = p.indexOf(10, at);
      const end = newline < 0 ? p.length : newline;
      if (this.line.length + end - at > maxLine) {
        this.long = true;
      } else if (!this.long) {
        this.line += latin(p.subarray(at, end));
      }
      if (newline < 0) {
        break;
      }
      if (!this.long && this.line.startsWith(mark)) {
        const digits = this.line.slice(mark.length).replace(/[\r ]+$/, "");
        if (/^[0-9]+$/.test(digits) && BigInt(digits) < 1n << 64n) {
          done = BigInt(digits);
        }
      }
      this.line = "";
      this.long = false;
      at = newline + 1;
    }
    return done;
  }
}

// latin has a character for each byte.
function latin(p: Uint8Array): string {
  return p.length > maxWords ? latin(p.subarray(0, maxWords)) + latin(p.subarray(maxWords)) : String.fromCharCode(...p);
}

// oneLine is text without line breaks or what a terminal would act on.
export function oneLine(text: Uint8Array | string): string {
  const s = typeof text === "string" ? text : new TextDecoder("utf-8", { ignoreBOM: true }).decode(text).replace(/\ufffd+/g, "?");
  return s.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S}]+/gu, " ").trim();
}

// clip cuts a reason at the bound, between two characters.
export function clip(s: string): string {
  const bytes = new TextEncoder().encode(s);
  if (bytes.length <= maxReason) {
    return s;
  }
  let cut = maxReason - 3;
  while (cut > 0 && (bytes[cut]! & 0xc0) === 0x80) {
    cut--;
  }
  return new TextDecoder().decode(bytes.subarray(0, cut)) + "...";
}
