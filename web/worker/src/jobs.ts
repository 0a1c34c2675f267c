import { final, maxModule, Problem, User, type Job, type Metric, type Who } from "./ask";

// The part of the page on which a user sees, submits and stops jobs of the user's own.
// What others wrote, as names and reasons, becomes text and nothing else.

const most = 50; // jobs that are shown, the last ones
const every = 3000; // ms between two looks at the list
const pause = 2000; // before a stream is asked for again

function at<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

// make makes an element with a text.
function make<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", className = ""): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  e.textContent = text;
  e.className = className;
  return e;
}

let user: User | undefined;
let who: Who | undefined;
let open = ""; // the job that is shown
let quit = new AbortController(); // ends the watch of that job
let key = ""; // of the submission that is being written
const rows = new Map<string, { item: HTMLLIElement; button: HTMLButtonElement; job: Job }>();

function say(text: string): void {
  at("said").textContent = text;
}

// told is an error in words.
function told(error: unknown): string {
  if (error instanceof Problem) {
    return error.hint === "" ? `${error.message}.` : `${error.message} (${error.hint}).`;
  }
  return error instanceof Error && error.name === "TimeoutError" ? "The gateway does not answer." : "The gateway cannot be reached.";
}

// over says whether the token is no longer good, and then signs out.
function over(error: unknown): boolean {
  if (!(error instanceof Problem && error.status === 401)) {
    return false;
  }
  leave();
  say("This token is not good, or not any more. Make another with `skein auth token`.");
  return true;
}

function leave(): void {
  user = who = undefined;
  open = "";
  quit.abort();
  rows.clear();
  at("list").replaceChildren();
  at("mine").hidden = true;
  at("token").hidden = false;
  at("one").hidden = true;
}

async function enter(token: string): Promise<void> {
  const asked = new User(token);
  user = asked;
  say("Asking.");
  try {
    const w = await asked.who();
    if (user !== asked) {
      return;
    }
    who = w;
  } catch (error) {
    if (user === asked && !over(error)) {
      leave();
      say(told(error));
    }
    return;
  }
  at("token").hidden = true;
  at("mine").hidden = false;
  at("submit").hidden = !who.may_change;
  const until = who.ends_at === null ? "" : ` until ${new Date(who.ends_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
  say(`You are ${who.name.replace("user:", "")}, a ${who.role}${until}.` + (who.may_change ? "" : " This token only reads."));
  while (user === asked) {
    await look(asked);
    await new Promise((go) => setTimeout(go, every));
  }
}

// look asks for the list, unless nobody sees it.
async function look(by: User): Promise<void> {
  if (document.hidden && rows.size > 0) {
    return;
  }
  try {
    const list = await by.jobs(most);
    if (user === by) {
      at("trouble").textContent = "";
      show(list);
    }
  } catch (error) {
    if (user === by && !over(error)) {
      at("trouble").textContent = told(error);
    }
  }
}

function show(list: Job[]): void {
  const there = new Set(list.map((j) => j.id));
  for (const [id, row] of rows) {
    if (!there.has(id)) {
      row.item.remove();
      rows.delete(id);
    }
  }
  let before: Element | null = at("list").firstElementChild;
  for (const j of list) {
    const item = update(j);
    if (item !== before) {
      at("list").insertBefore(item, before);
    } else {
      before = item.nextElementSibling;
    }
  }
  at("none").hidden = list.length > 0;
}

// update has the row of a job tell how it is, and makes it if there is none.
function update(j: Job): HTMLLIElement {
  let row = rows.get(j.id);
  if (!row) {
    const item = make("li");
    const button = make("button");
    button.type = "button";
    button.append(make("span", "", "name"), make("span", "", "state"), document.createElement("progress"));
    button.addEventListener("click", () => choose(j.id));
    item.append(button);
    row = { item, button, job: j };
    rows.set(j.id, row);
  }
  row.job = j;
  const [name, state, bar] = row.button.children as unknown as [HTMLElement, HTMLElement, HTMLProgressElement];
  name.textContent = j.name || j.id;
  state.textContent = `${j.state.replace("_", " ")}, ${percent(j)}`;
  bar.max = Math.max(1, j.iterations.total);
  bar.value = j.iterations.accepted;
  bar.setAttribute("aria-label", `${j.name || j.id}: ${percent(j)}`);
  row.button.setAttribute("aria-pressed", String(j.id === open));
  return row.item;
}

function percent(j: Job): string {
  return j.iterations.total === 0 ? "0 %" : `${Math.floor((100 * j.iterations.accepted) / j.iterations.total)} %`;
}

// choose shows one job, live.
function choose(id: string): void {
  quit.abort();
  quit = new AbortController();
  open = id;
  for (const row of rows.values()) {
    row.button.setAttribute("aria-pressed", String(row.job.id === id));
  }
  const row = rows.get(id);
  if (row) {
    detail(row.job);
  }
  void follow(id, quit.signal);
}

async function follow(id: string, until: AbortSignal): Promise<void> {
  const by = user;
  let done = false;
  while (by && !until.aborted && !done) {
    try {
      await by.watch(id, until, (j) => {
        if (!until.aborted) {
          update(j);
          detail(j);
          done = final(j);
        }
      });
    } catch (error) {
      if (until.aborted || over(error)) {
        return;
      }
      if (error instanceof Problem && error.status === 404) {
        at("trouble").textContent = told(error);
        return;
      }
    }
    if (!done) {
      await new Promise((go) => setTimeout(go, pause));
    }
  }
}

function detail(j: Job): void {
  at("one").hidden = false;
  at("title").textContent = j.name || j.id;
  const facts: [string, string][] = [
    ["Job", j.id],
    ["State", j.state.replace("_", " ")],
    ["Iterations", `${count(j.iterations.accepted)} of ${count(j.iterations.total)}`],
    ["Chunks", `${count(j.chunks.accepted)} of ${count(j.chunks.total)}`],
    ["Workers", count(j.workers.length)],
    ["Took", seconds(j.elapsed_seconds)],
  ];
  if (!final(j)) {
    facts.push(["A second", j.rate_per_second === null ? "-" : count(Math.round(j.rate_per_second))], ["Left", j.eta_seconds === null ? "-" : seconds(j.eta_seconds)]);
  }
  for (const [name, text] of [["Why", j.reason], ["Waits", j.waits], ["Warning", j.warning]] as const) {
    if (text) {
      facts.push([name, text]);
    }
  }
  at("facts").replaceChildren(...facts.flatMap(([name, text]) => [make("dt", name), make("dd", text)]));
  const results = Object.entries(j.aggregates ?? {});
  at("results").hidden = results.length === 0;
  at("metrics").replaceChildren(
    ...results.map(([name, m]) => {
      const tr = make("tr");
      const th = make("th", name);
      th.scope = "row";
      tr.append(th, make("td", number(m.mean)), make("td", margin(m)), make("td", count(m.n)));
      return tr;
    }),
  );
  at("stop").hidden = final(j) || !who?.may_change;
}

function margin(m: Metric): string {
  return m.ci95_low === null || m.ci95_high === null ? "-" : `${number(m.ci95_low)} to ${number(m.ci95_high)}`;
}

function number(x: number): string {
  return x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e9) ? String(Number(x.toPrecision(7))) : x.toExponential(4);
}

function count(n: number): string {
  return n.toLocaleString("en");
}

function seconds(s: number): string {
  return s < 60 ? `${s.toFixed(1)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

async function submit(): Promise<void> {
  const by = user;
  const module = at<HTMLInputElement>("module").files?.[0];
  const button = at<HTMLButtonElement>("send");
  if (!by || !module || button.disabled) {
    return;
  }
  if (module.size > maxModule) {
    at("sent").textContent = `The module has ${count(module.size)} bytes; at most ${count(maxModule)} are taken.`;
    return;
  }
  key ||= crypto.randomUUID();
  button.disabled = true;
  at("sent").textContent = "Sending.";
  try {
    const id = await by.submit(key, at<HTMLInputElement>("name").value.trim(), module, at<HTMLInputElement>("iterations").valueAsNumber);
    key = "";
    at("sent").textContent = "Submitted.";
    await look(by);
    if (user === by) {
      choose(id);
    }
  } catch (error) {
    if (!over(error)) {
      at("sent").textContent = told(error);
    }
  } finally {
    button.disabled = false;
  }
}

async function stop(): Promise<void> {
  const [by, id] = [user, open];
  if (!by) {
    return;
  }
  try {
    await by.stop(id);
    await look(by);
  } catch (error) {
    if (!over(error)) {
      at("trouble").textContent = told(error);
    }
  }
}

at("token").addEventListener("submit", (e) => {
  e.preventDefault();
  const field = at<HTMLInputElement>("text");
  const token = field.value.trim();
  field.value = "";
  if (token !== "") {
    void enter(token);
  }
});
at("out").addEventListener("click", () => {
  leave();
  say("The token is forgotten.");
});
at("submit").addEventListener("submit", (e) => {
  e.preventDefault();
  void submit();
});
at("submit").addEventListener("input", () => {
  key = ""; // another submission
  at("sent").textContent = "";
});
at("stop").addEventListener("click", () => void stop());
