// ChaCha8 yields the bytes of C2SP chacha8rand, as math/rand/v2 of Go does. Numbers are
// little-endian, as they are in memory wherever there is a browser.
export class ChaCha8 {
  private readonly key = new Uint32Array(8);
  private readonly words = new Uint32Array(64); // four blocks, interleaved
  private readonly bytes = new Uint8Array(this.words.buffer);
  private counter = 0;
  private at = 0;
  private end = 0;

  constructor(seed: Uint8Array) {
    if (seed.length !== 32) {
      throw new Error(`a seed has 32 bytes, not ${seed.length}`);
    }
    new Uint8Array(this.key.buffer).set(seed);
    this.make();
  }

  // fill writes the next bytes into all of into.
  fill(into: Uint8Array): void {
    for (let n = 0; n < into.length; ) {
      if (this.at === this.end) {
        this.refill();
      }
      const part = Math.min(into.length - n, this.end - this.at);
      into.set(this.bytes.subarray(this.at, this.at + part), n);
      this.at += part;
      n += part;
    }
  }

  private refill(): void {
    this.counter += 4;
    if (this.counter === 16) {
      this.key.set(this.words.subarray(56)); // the last 32 bytes were kept for this
      this.counter = 0;
    }
    this.make();
  }

  private make(): void {
    for (let i = 0; i < 4; i++) {
      block(this.key, this.counter + i, this.words, i);
    }
    this.at = 0;
    this.end = this.counter === 12 ? 224 : 256;
  }
}

function block(key: Uint32Array, counter: number, out: Uint32Array, lane: number): void {
  const x = new Uint32Array(16);
  x.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
  x.set(key, 4);
  x[12] = counter;
  for (let round = 0; round < 4; round++) {
    quarter(x, 0, 4, 8, 12);
    quarter(x, 1, 5, 9, 13);
    quarter(x, 2, 6, 10, 14);
    quarter(x, 3, 7, 11, 15);
    quarter(x, 0, 5, 10, 15);
    quarter(x, 1, 6, 11, 12);
    quarter(x, 2, 7, 8, 13);
    quarter(x, 3, 4, 9, 14);
  }
  for (let j = 0; j < 16; j++) {
    out[j * 4 + lane] = x[j]! + (j >= 4 && j < 12 ? key[j - 4]! : 0); // only the key is added
  }
}

function quarter(x: Uint32Array, a: number, b: number, c: number, d: number): void {
  x[a] = x[a]! + x[b]!;
  x[d] = rotate(x[d]! ^ x[a]!, 16);
  x[c] = x[c]! + x[d]!;
  x[b] = rotate(x[b]! ^ x[c]!, 12);
  x[a] = x[a]! + x[b]!;
  x[d] = rotate(x[d]! ^ x[a]!, 8);
  x[c] = x[c]! + x[d]!;
  x[b] = rotate(x[b]! ^ x[c]!, 7);
}

function rotate(v: number, by: number): number {
  return (v << by) | (v >>> (32 - by));
}

// guestRandom is the source of a guest's random bytes: a function of seed and offset.
export async function guestRandom(seed: string, offset: string): Promise<ChaCha8> {
  const prefix = new TextEncoder().encode("skein-guest-random/1");
  const text = new Uint8Array(prefix.length + 16);
  text.set(prefix);
  const numbers = new DataView(text.buffer, prefix.length);
  numbers.setBigUint64(0, BigInt(seed));
  numbers.setBigUint64(8, BigInt(offset));
  return new ChaCha8(new Uint8Array(await crypto.subtle.digest("SHA-256", text)));
}
