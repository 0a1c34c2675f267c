// Whether an event is what its host wrote, found out in this page and not believed of
// whoever brought it: the bytes of the event hash to what the next event names, and so
// on up to a head that the host signed; the key of the host is certified, up to the root
// key of the cluster. docs/log-format.md has the bytes.
import { ask } from "./session";
import type { Entry, Source } from "./types";

export interface Check { at: string; ok: boolean; problem?: string }

export type Verdict =
  | { kind: "proved"; shown: number; chains: Chain[]; root: string }
  | { kind: "unchecked"; why: string; host: string; checked: Check | null }
  | { kind: "broken"; at: string; why: string };

/** Chain is what was read of one: so many events, up to a head, with a key that by certified; empty: the root key did. */
export interface Chain { source: Source; head: number; events: number; by: string }

interface Raw { source: Source; seq: number; prev: string; hash: string; raw: string }
interface Answer {
  node: string; cluster: string; events: Raw[]; head: { source: Source; seq: number; hash: string; sig: string };
  withheld?: boolean; certs: string[]; root_key: string; checked: Check | null;
}

class Broken extends Error { constructor(readonly at: string, why: string) { super(why); } }
class Unable extends Error {}

/** most and longest bound how many bytes and events of a chain are read. */
const most = 32 << 20, longest = 5000;

/** bytes of a text; what may be shared memory elsewhere is not here. */
type Bytes = Uint8Array<ArrayBuffer>;
const torn = new Error("not what it should be");
const utf8 = (s: string) => new TextEncoder().encode(s) as Bytes;
const hex = (b: Uint8Array) => [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
const same = (a: Uint8Array, b: Uint8Array) => hex(a) === hex(b);

function base64(text: unknown): Bytes {
  if (typeof text !== "string") throw torn;
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

function join(...parts: Uint8Array[]): Bytes {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) { out.set(p, at); at += p.length; }
  return out;
}

function u64(n: bigint): Bytes {
  const b = new Uint8Array(8);
  new DataView(b.buffer).setBigUint64(0, n);
  return b;
}

class Reader {
  private at = 0;
  constructor(private readonly b: Bytes) {}
  take(n: number): Bytes {
    if (this.at + n > this.b.length) throw torn;
    return this.b.slice(this.at, (this.at += n));
  }
  u8(): number { return this.take(1)[0]!; }
  u32(): number { return new DataView(this.take(4).buffer).getUint32(0); }
  u64(): bigint { return new DataView(this.take(8).buffer).getBigUint64(0); }
  text(n = this.u8()): string { return new TextDecoder().decode(this.take(n)); }
  end(): void { if (this.at !== this.b.length) throw torn; }
}

interface Decoded { node: string; inc: bigint; seq: bigint; prev: Bytes; hlc: bigint; term: bigint; kind: string; body: string }

function decode(raw: Bytes): Decoded {
  const r = new Reader(raw);
  if (r.u8() !== 1) throw torn;
  const e = { node: r.text(), inc: r.u64(), seq: r.u64(), prev: r.take(32), hlc: r.u64(), term: r.u64(), kind: r.text(), body: r.text(r.u32()) };
  r.end();
  return e;
}

interface Cert { node: string; key: Bytes; sponsor: boolean; issuer: Bytes; bytes: Bytes; sig: Bytes }

function certificate(text: string): Cert {
  const [record = "", sig = ""] = text.split("."), bytes = base64(record), r = new Reader(bytes);
  if (r.u8() !== 1) throw torn;
  r.take(16);
  const node = r.text(), key = r.take(32);
  r.take(4 + 16);
  const sponsor = (r.u8() & 1) === 1;
  r.take((sponsor ? 5 : 0) + 4 * 8);
  return { node, key, sponsor, issuer: r.take(32), bytes, sig: base64(sig) };
}

const sha256 = async (b: Bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", b));

async function signed(key: Bytes, message: Bytes, sig: Bytes): Promise<boolean> {
  let k: CryptoKey;
  try {
    k = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch (e) {
    if ((e as Error).name === "NotSupportedError") throw new Unable("this browser does not know Ed25519");
    return false; // no key
  }
  return crypto.subtle.verify({ name: "Ed25519" }, k, sig, message);
}

const named = (s: { node: string; inc: number | bigint }, seq: number | bigint) => `${s.node}/${s.inc}:${seq}`;

async function fetchProof(s: Source, seq: number): Promise<Answer> {
  let text: string, ok: boolean;
  try {
    const r = await ask(`/v1/events/${encodeURIComponent(s.node)}/${s.inc}/${seq}`, { signal: AbortSignal.timeout(30000) });
    ok = r.ok;
    text = await r.text();
  } catch (e) {
    throw new Unable("no answer: " + String((e as Error).message ?? e));
  }
  let v: any; // eslint-disable-line
  try { v = JSON.parse(text); } catch { v = null; }
  if (!ok) throw new Unable(typeof v?.detail === "string" ? v.detail : "the host does not tell");
  if (!Array.isArray(v?.events) || v.events.length === 0 || !Array.isArray(v.certs) || !v.head?.source) throw new Broken(named(s, seq), "what came is no proof");
  return v;
}

/** walk reads a chain from one event on up to a signed head at or after another, checks
 * that each event names the hash of the one before it, and tells of each. */
async function walk(s: Source, from: number, to: number, each: (seq: number, d: Decoded, hash: string) => void): Promise<Answer> {
  let prev: Bytes | null = null, next = from, size = 0;
  if (to - from > longest) throw new Unable(`the events of ${s.node} are too far apart`);
  for (;;) {
    const a: Answer = await fetchProof(s, next);
    for (const e of a.events) {
      const at = named(s, next);
      let raw: Bytes, d: Decoded;
      try { raw = base64(e.raw); d = decode(raw); } catch { throw new Broken(at, "its bytes are no event"); }
      if (named(d, d.seq) !== at) throw new Broken(at, "its bytes are another event");
      const sum: Bytes = await sha256(join(utf8("evt1"), d.prev, raw));
      if (hex(sum) !== e.hash) throw new Broken(at, "its bytes do not have its hash");
      if (prev && !same(prev, d.prev)) throw new Broken(at, "it does not follow from the event before it");
      each(next, d, e.hash);
      prev = sum;
      next++;
      size += raw.length;
    }
    if (next - 1 >= a.head.seq && next > to) {
      if (named(a.head.source, 0) !== named(s, 0) || a.head.hash !== hex(prev!)) throw new Broken(named(s, a.head.seq), "the head is not that of its events");
      return a;
    }
    if (a.withheld || size > most) throw new Unable("the events up to the next head are not for you, or too many");
  }
}

/** authority finds out that a head was signed with a key that the root key certifies. */
async function authority(a: Answer): Promise<{ by: string; root: string }> {
  const at = named(a.head.source, a.head.seq);
  if (a.certs.length === 0) throw new Unable(`${a.node} has no certificate of the key that signed it`);
  let certs: Cert[], root: Bytes, sig: Bytes;
  try {
    certs = a.certs.slice(0, 2).map(certificate);
    root = base64(a.root_key);
    sig = base64(a.head.sig);
  } catch { throw new Broken(at, "its certificate is none"); }
  const [host, sponsor] = certs, id = utf8(a.cluster);
  if (host!.node !== a.head.source.node) throw new Broken(at, "the key that signed it is another host's");
  const message = join(utf8("skein/head/1\n"), Uint8Array.of(id.length), id, Uint8Array.of(utf8(host!.node).length), utf8(host!.node), u64(BigInt(a.head.source.inc)), u64(BigInt(a.head.seq)),
    Uint8Array.from(a.head.hash.match(/../g) ?? [], (h) => parseInt(h, 16)));
  if (!await signed(host!.key, message, sig)) throw new Broken(at, `it is not signed by ${host!.node}`);
  if (sponsor && !(same(sponsor.key, host!.issuer) && sponsor.sponsor)) throw new Broken(at, `${sponsor.node} may not certify ${host!.node}`);
  const last = sponsor ?? host!;
  if (!same(last.issuer, root)) throw new Broken(at, `the certificate of ${last.node} is not of the root key`);
  for (const [c, key] of [[host!, sponsor?.key ?? root], [last, root]] as const) {
    if (!await signed(key, join(utf8("skein/cert/1\n"), c.bytes), c.sig)) throw new Broken(at, `the certificate of ${c.node} is not signed`);
  }
  return { by: sponsor?.node ?? "", root: hex(await sha256(root)) };
}

/** differs says what is shown otherwise than it was written; empty: nothing. */
function differs(e: Entry, d: Decoded, hash: string): string {
  let body: unknown;
  try { body = JSON.parse(d.body); } catch { body = undefined; }
  if (e.hash !== hash) return "the hash";
  if (e.kind !== d.kind) return "the kind";
  if (e.term !== Number(d.term)) return "the term";
  if (e.hlc !== Number(d.hlc)) return "the time";
  return JSON.stringify(e.body) === JSON.stringify(body) ? "" : "the body";
}

/** prove finds out whether events that are shown are what their hosts wrote. */
export async function prove(list: Entry[]): Promise<Verdict> {
  let host = "", checked: Check | null = null, root = "";
  const bySource = new Map<string, Entry[]>(), chains: Chain[] = [];
  for (const e of list) {
    const key = `${e.source.node}/${e.source.inc}`;
    bySource.set(key, [...(bySource.get(key) ?? []), e]);
  }
  try {
    if (!list.length) throw new Unable("no event is here");
    if (!globalThis.crypto?.subtle) throw new Unable("a browser checks nothing on a page that came neither from this machine nor over https");
    for (const own of bySource.values()) {
      const source = own[0]!.source, seqs = own.map((e) => e.seq), shown = new Map(own.map((e) => [e.seq, e])), from = Math.min(...seqs);
      let events = 0;
      const a = await walk(source, from, Math.max(...seqs), (seq, d, hash) => {
        events++;
        const e = shown.get(seq), wrong = e ? differs(e, d, hash) : "";
        if (wrong) throw new Broken(named(source, seq), `${wrong} was another when ${source.node} wrote it`);
      });
      host = a.node;
      checked = a.checked;
      const by = await authority(a);
      if (root && root !== by.root) throw new Broken(named(source, a.head.seq), "its root key is another than that of other events");
      root = by.root;
      chains.push({ source, head: a.head.seq, events, by: by.by });
    }
    return { kind: "proved", shown: list.length, chains, root };
  } catch (err) {
    if (err instanceof Broken) return { kind: "broken", at: err.at, why: err.message };
    return { kind: "unchecked", why: String((err as Error).message ?? err), host, checked };
  }
}
