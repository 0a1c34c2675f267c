// Who this browser is: an Ed25519 key that cannot leave it, under which a gateway knows
// it as a worker, and the tokens that it gets by that key.

const version = 1; // of what this client understands
const database = "skein";
const table = "keys";
const name = "worker";
const patience = 30_000; // ms, of one answer

// Refused is a gateway's answer that is no success.
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly serverTime?: string,
  ) {
    super(message);
  }
}

// Registered says what came of registering: who is unclaimed shows the code to its owner.
export interface Registered {
  worker: string;
  state: string;
  owner?: string;
  claim_code?: string | null;
  fingerprint: string;
  expires_at: string | null;
}

interface Info {
  cluster: string;
  urls: string[];
  ws_url?: string;
}

export class Identity {
  private skew = 0; // of the gateway's clock, ms
  private info: Info | undefined;
  private held: { text: string; until: number } | undefined;

  private constructor(
    readonly id: string,
    readonly publicKey: string,
    private readonly key: CryptoKey,
    private readonly base: string,
  ) {}

  // open takes the key that this browser has for this page, or makes one.
  static async open(base: string = location.origin): Promise<Identity> {
    let pair = await keep("readonly", (t) => t.get(name) as IDBRequest<CryptoKeyPair | undefined>);
    if (!pair) {
      const fresh = (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
      // Of two pages that open at once the first one's counts.
      await keep("readwrite", (t) => t.add(fresh, name)).catch(() => undefined);
      pair = (await keep("readonly", (t) => t.get(name) as IDBRequest<CryptoKeyPair | undefined>)) ?? fresh;
    }
    const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    return new Identity(await idOf(raw), btoa(String.fromCharCode(...raw)), pair.privateKey, base);
  }

  // forget has this browser be nobody.
  static async forget(): Promise<void> {
    await keep("readwrite", (t) => t.delete(name));
  }

  async register(as: string, accessToken?: string): Promise<Registered> {
    const body = { public_key: this.publicKey, name: as, client: version, ...(accessToken ? { access_token: accessToken } : {}) };
    return (await this.post("/v1/workers/register", body)) as Registered;
  }

  // realtime is where the gateway wants workers to connect; undefined: to itself. It is known
  // once something was signed.
  realtime(): string | undefined {
    return this.info?.ws_url;
  }

  // token returns one that is good for a while: the last one, or a new one.
  async token(): Promise<string> {
    if (this.held && this.held.until > Date.now()) {
      return this.held.text;
    }
    const { token, expires_at } = (await this.post("/v1/workers/token", { client: version })) as { token: string; expires_at: string };
    // The gateway's clock says when it ends; a fifth of its life is left for its use.
    const life = Date.parse(expires_at) - (Date.now() + this.skew);
    this.held = { text: token, until: Date.now() + life * 0.8 };
    return token;
  }

  private async post(path: string, body: unknown): Promise<unknown> {
    try {
      return await this.signed(path, body);
    } catch (error) {
      if (error instanceof Refused && error.status === 409) {
        return this.signed(path, body); // the signature was used already, as by a proxy that asked twice
      }
      const time = error instanceof Refused && error.status === 401 ? Date.parse(error.serverTime ?? "") : NaN;
      if (Number.isNaN(time)) {
        throw error;
      }
      this.skew = time - Date.now(); // this computer's clock is off
      return this.signed(path, body);
    }
  }

  private async signed(path: string, body: unknown): Promise<unknown> {
    this.info ??= (await answer(await fetch(this.base + "/v1/info", { signal: AbortSignal.timeout(patience) }))) as Info;
    const text = JSON.stringify(body);
    const time = String(Math.round(Date.now() + this.skew));
    const nonce = base64url(crypto.getRandomValues(new Uint8Array(16)));
    const host = hostOf(this.info.urls[0] ?? this.base);
    const sum = [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes(text)))].map((b) => b.toString(16).padStart(2, "0")).join("");
    const fields = ["skein-gw-v1", this.info.cluster, "POST", host, path, "", time, nonce, this.id, sum];
    const message = bytes(fields.map((f) => f + "\n").join(""));
    const signature = base64url(new Uint8Array(await crypto.subtle.sign("Ed25519", this.key, message)));
    return answer(
      await fetch(this.base + path, {
        method: "POST",
        body: text,
        signal: AbortSignal.timeout(patience),
        headers: { "Content-Type": "application/json", "Skein-Key": this.id, "Skein-Time": time, "Skein-Nonce": nonce, "Skein-Signature": signature },
      }),
    );
  }
}

async function answer(r: Response): Promise<unknown> {
  const said = (await r.json().catch(() => ({}))) as { detail?: string; server_time?: string };
  if (!r.ok) {
    throw new Refused(r.status, said.detail ?? `status ${r.status}`, said.server_time);
  }
  return said;
}

// idOf is the id of the worker that has a key.
async function idOf(key: Uint8Array): Promise<string> {
  const prefix = bytes("skein-worker/1");
  const all = new Uint8Array(prefix.length + key.length);
  all.set(prefix);
  all.set(key, prefix.length);
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  let id = "w-";
  for (let bit = 0; id.length < 28; bit += 5) {
    const two = (sum[bit >> 3]! << 8) | sum[(bit >> 3) + 1]!;
    id += "abcdefghijklmnopqrstuvwxyz234567"[(two >> (11 - (bit & 7))) & 31]!;
  }
  return id;
}

// hostOf is the host of an address as it is written, with a port that need not be there.
function hostOf(url: string): string {
  return (/^[a-z]+:\/\/([^/?#]*)/i.exec(url)?.[1] ?? "").toLowerCase();
}

function bytes(s: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(s);
}

function base64url(b: Uint8Array): string {
  return btoa(String.fromCharCode(...b))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

// keep does one thing in the table of this browser's keys.
function keep<T>(mode: IDBTransactionMode, act: (t: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(database, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(table);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const db = opening.result;
      const change = db.transaction(table, mode);
      const request = act(change.objectStore(table));
      change.oncomplete = () => {
        db.close();
        resolve(request.result);
      };
      change.onabort = () => {
        db.close();
        reject(change.error);
      };
    };
  });
}
