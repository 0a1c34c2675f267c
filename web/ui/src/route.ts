// Where the page is: #/events/n1/1/404?q=kind:lease*&host=n3

export interface Route { page: string; rest: string[]; query: URLSearchParams }

function decode(s: string): string {
  try { return decodeURIComponent(s); } catch { return s; }
}

export function parse(hash: string): Route {
  if (!hash.startsWith("#/")) hash = ""; // a code, which is nobody's business
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...rest] = path.split("/").map(decode);
  return { page: page || "overview", rest: rest.filter(Boolean), query: new URLSearchParams(query) };
}

/** link is one to a page; who looks back goes on doing so, unless it says at. */
export function link(page: string, rest: string[] = [], query: Record<string, string> = {}): string {
  query = { at: parse(location.hash).query.get("at") ?? "", ...query };
  const path = [page === "overview" ? "" : page, ...rest].map(encodeURIComponent).join("/");
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "")).toString();
  return "#/" + path + (q ? "?" + q : "");
}

/** here is a link to the same place with something else in its query. */
export function here(r: Route, query: Record<string, string>): string {
  return link(r.page, r.rest, { ...Object.fromEntries(r.query), ...query });
}

export function go(to: string): void { location.hash = to; }
