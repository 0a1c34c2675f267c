// Artefacts are kept by their hash in the browser's cache, bounded, and checked each
// time that they are read: nothing else vouches for what a cache returns.

// StoreOptions configures a store.
export interface StoreOptions {
  name?: string; // of the cache
  limit?: number; // bytes that are kept
  // fetch asks a gateway for an artefact.
  fetch?: (hash: string) => Promise<Response>;
}

// Missing says that an artefact cannot be had now: no fault of the work.
export class Missing extends Error {}

export class Store {
  private readonly name: string;
  private readonly limit: number;
  private readonly ask: (hash: string) => Promise<Response>;

  constructor(o: StoreOptions = {}) {
    this.name = o.name ?? "skein-artefacts";
    this.limit = o.limit ?? 512 << 20;
    this.ask = o.fetch ?? ((hash) => fetch(pathOf(hash)));
  }

  // get returns an artefact of at most so many bytes, from the cache or a gateway.
  async get(hash: string, most: number): Promise<Uint8Array> {
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      throw new Missing("not a hash");
    }
    const cache = await caches.open(this.name);
    const there = await cache.match(pathOf(hash));
    if (there) {
      const bytes = await bounded(there, most).catch(() => undefined);
      if (bytes && (await sumOf(bytes)) === hash) {
        return bytes;
      }
      await cache.delete(pathOf(hash)); // damaged: once more
    }
    let bytes: Uint8Array;
    try {
      const answer = await this.ask(hash);
      if (answer.status !== 200) {
        throw new Missing(`status ${answer.status}`);
      }
      bytes = await bounded(answer, most);
    } catch (error) {
      throw new Missing(`artefact ${hash}: ${error instanceof Error ? error.message : String(error)}`);
    }
    if ((await sumOf(bytes)) !== hash) {
      throw new Missing(`artefact ${hash}: what came is something else`);
    }
    await this.keep(cache, hash, bytes).catch(() => undefined); // a full disk: it is fetched again
    return bytes;
  }

  // keep puts an artefact into the cache after the oldest have made room. Pages take turns.
  private keep(cache: Cache, hash: string, bytes: Uint8Array): Promise<void> {
    return navigator.locks.request(this.name, async () => {
      if (bytes.length > this.limit) {
        return;
      }
      const kept: { key: Request; size: number }[] = [];
      for (const key of await cache.keys()) { // in the order in which they came
        const size = Number((await cache.match(key))?.headers.get("Content-Length") ?? 0);
        kept.push({ key, size });
      }
      let sum = kept.reduce((all, k) => all + k.size, bytes.length);
      for (const k of kept) {
        if (sum <= this.limit) {
          break;
        }
        await cache.delete(k.key);
        sum -= k.size;
      }
      const headers = { "Content-Length": String(bytes.length), "Content-Type": "application/octet-stream" };
      await cache.put(pathOf(hash), new Response(bytes as BodyInit, { headers }));
    });
  }
}

function pathOf(hash: string): string {
  return `/v1/artefacts/${hash}`;
}

async function sumOf(bytes: Uint8Array): Promise<string> {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as BufferSource));
  return [...sum].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// bounded reads an answer and gives up where it is longer.
async function bounded(answer: Response, most: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = answer.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    length += next.value.length;
    if (length > most) {
      await reader?.cancel();
      throw new Missing(`more than ${most} bytes`);
    }
    parts.push(next.value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}
