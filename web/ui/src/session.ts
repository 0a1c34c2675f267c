// Who may read: a code in the fragment of the link is traded once for a bearer, which
// the tab keeps, and gives to other tabs of the same page. No cookie: those are sent to
// every port of a host.

const key = "skein-bearer";
let channel: BroadcastChannel | null = null;

/** where the API is: a page that everybody may read says so, and needs no bearer */
const open = document.getElementById("plain"), base = open?.dataset.base ?? "";

export function bearer(): string {
  return sessionStorage.getItem(key) ?? "";
}

function share(): void {
  channel = new BroadcastChannel("skein-session");
  channel.onmessage = (m: MessageEvent) => {
    if (m.data?.ask === true && bearer()) channel?.postMessage({ bearer: bearer() });
  };
}

function askTabs(): Promise<string> {
  return new Promise((done) => {
    const c = new BroadcastChannel("skein-session");
    const end = (b: string) => { c.close(); done(b); };
    c.onmessage = (m: MessageEvent) => { if (typeof m.data?.bearer === "string") end(m.data.bearer); };
    c.postMessage({ ask: true });
    setTimeout(() => end(""), 300);
  });
}

/** enter reports whether this tab may read. */
export async function enter(): Promise<boolean> {
  if (open) return true;
  const fragment = location.hash.slice(1);
  if (fragment && !fragment.startsWith("/")) {
    const [code, ...to] = fragment.split("/"); // what follows the code is a page
    location.replace("#/" + to.join("/")); // before anything can fail: the code is worth nothing afterwards
    const r = await fetch("/ui/session", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }),
    }).catch(() => null);
    // What this tab has from before may still be good where the code was used.
    if (r?.ok) sessionStorage.setItem(key, (await r.json()).bearer);
  }
  if (!bearer()) {
    const b = await askTabs();
    if (b) sessionStorage.setItem(key, b);
  }
  share();
  return bearer() !== "";
}

/** ask is fetch with the bearer. */
export function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (bearer()) headers.set("Authorization", "Bearer " + bearer());
  return fetch(base + path, { ...init, headers, cache: "no-store", redirect: "error" });
}

/** readLines calls f with each line as it comes, and heard with every sign of life. */
export async function readLines(r: Response, heard: () => void, f: (line: string) => void): Promise<void> {
  if (!r.body) return;
  const reader = r.body.getReader(), text = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    rest += text.decode(value, { stream: true });
    const parts = rest.split("\n");
    rest = parts.pop() ?? "";
    if (rest.length > 8 << 20) throw new Error("a line without end");
    for (const line of parts) if (line) f(line);
  }
}
