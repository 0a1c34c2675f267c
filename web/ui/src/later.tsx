// Parts of the page that come when they are shown for the first time.
import { useEffect, useState } from "preact/hooks";

type Part<P> = (props: P) => any;

const all: (() => Promise<void>)[] = [];

/** later is a part that load brings. What is large says so, and comes only then. */
export function later<P extends object>(load: () => Promise<Part<P>>, large?: boolean): Part<P> {
  let Got: Part<P> | null = null;
  const get = () => load().then((p) => { Got = p; });
  if (!large) all.push(get);
  return function Later(props: P) {
    const [wrong, set] = useState<string | null>(null);
    useEffect(() => { if (!Got) get().then(() => set(""), (e) => set(String(e))); }, []);
    if (Got) return <Got {...props} />;
    return wrong ? <p class="none" role="alert">This part of the page did not come. <button type="button" onClick={() => location.reload()}>Load the page again</button></p>
      : <p class="none loading">Loading{"\u2026"}</p>;
  };
}

/** fetchAll brings the parts that were not shown yet: they are wanted when the host is gone, too. */
export function fetchAll(): void {
  for (const get of all) get().catch(() => {}); // whoever shows it says so
}
