import { Client, type Status } from "./client";
import { rest } from "./guest";
import { Identity, Refused } from "./identity";
import "./jobs";

// The page on which somebody lets this browser work. It does nothing before a click.

const memoryBytes = 1n << 30n; // the most that a job may ask for, as a host's default
const askAgain = 15_000; // whether somebody has claimed it: a worker gets six tokens a minute
const pauses = 10_000; // after what failed

interface Battery extends EventTarget {
  charging: boolean;
}

// at finds an element of index.html.
function at<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const start = at<HTMLButtonElement>("start");
const slots = at<HTMLInputElement>("slots");
const cores = Math.min(64, navigator.hardwareConcurrency || 1);

let wanted = 0; // the run that was asked for last; odd: one is
let client: Client | undefined;
let battery: Battery | undefined;
let done = 0; // by clients before this one
let again: () => void = () => {}; // looks whether to pause

function say(text: string): void {
  at("state").textContent = text;
}

function show(): void {
  const s: Status = client?.status() ?? { connected: false, attached: false, waiting: 0, running: 0, kept: 0, done: 0 };
  at("done").textContent = String(done + s.done);
  at("running").textContent = String(s.running);
  at("waiting").textContent = String(s.waiting);
  at("kept").textContent = String(s.kept);
  if (!client) {
    return;
  }
  if (s.over !== undefined) {
    say(overText[s.over] ?? `It is over: ${s.over}.`);
    void end();
  } else if (!s.connected) {
    say(s.trouble ? `Connecting again: ${s.trouble}.` : "Connecting.");
  } else {
    say(s.trouble ? `Trying again: ${s.trouble}.` : s.running > 0 ? "Working." : "Ready; there is nothing to do just now.");
  }
}

const overText: Readonly<Record<string, string>> = {
  replaced: "Another tab works as this browser; this one has stopped.",
  revoked: "This browser was shut out by its owner or an operator, or its owner may do nothing at present.",
  old: "This page is too old for its gateway: load it again.",
  distrusted: "What this computer found differs from what others found: it may be broken. It gets no more work.",
};

// paused says why nothing is to run although it is wanted.
function paused(): string | undefined {
  if (at<HTMLInputElement>("hidden").checked && document.hidden) {
    return "Paused while this tab is hidden.";
  }
  if (at<HTMLInputElement>("battery").checked && battery && !battery.charging) {
    return "Paused on battery.";
  }
  return undefined;
}

// leave ends the client, if there is one: others do what it had.
async function leave(): Promise<void> {
  const was = client;
  client = undefined;
  if (was) {
    done += was.status().done;
    await was.close();
    rest();
  }
}

// end is for good, until the next click.
async function end(): Promise<void> {
  wanted += wanted % 2;
  start.textContent = "Begin";
  slots.disabled = false;
  at("claim").hidden = true;
  await leave();
  show();
}

// keepUp has what is wanted be so, or not while it is paused.
async function keepUp(run: number, me: Identity): Promise<void> {
  const why = paused();
  if (run !== wanted) {
    return;
  }
  if (why !== undefined) {
    await leave();
    show();
    if (run === wanted && !client) {
      say(why);
    }
  } else if (!client) {
    const realtime = me.realtime();
    client = new Client({
      worker: me.id,
      token: () => me.token(),
      slots: Number(slots.value),
      memoryBytes,
      changed: show,
      ...(realtime === undefined ? {} : { realtime }),
    });
    show();
  }
}

// enrolled waits until this browser is somebody's.
async function enrolled(run: number, me: Identity): Promise<void> {
  let until = 0; // the code's end
  while (run === wanted) {
    try {
      if (Date.now() > until) {
        const said = await me.register("browser");
        if (said.state !== "unclaimed") {
          break;
        }
        at("code").textContent = said.claim_code ?? "";
        at("fingerprint").textContent = said.fingerprint;
        at("claim").hidden = false;
        say("Waiting to be claimed.");
        until = Date.now() + 14 * 60_000;
      }
      await sleep(askAgain);
      await me.token();
      break;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 403 && until > 0)) {
        say(`Trying again: ${error instanceof Error ? error.message : String(error)}.`);
        await sleep(pauses);
      }
    }
  }
  if (run === wanted) {
    at("claim").hidden = true;
  }
}

async function begin(): Promise<void> {
  const run = ++wanted;
  start.textContent = "Stop";
  slots.disabled = true;
  say("Registering.");
  try {
    const me = await Identity.open();
    at("worker").textContent = me.id;
    await enrolled(run, me);
    again = () => void keepUp(run, me);
    await keepUp(run, me);
  } catch (error) {
    say(`This browser cannot: ${error instanceof Error ? error.message : String(error)}.`);
    await end();
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((go) => setTimeout(go, ms));
}

at("form").addEventListener("submit", (e) => {
  e.preventDefault();
  if (wanted % 2 === 0) {
    void begin();
  } else {
    void end().then(() => say("Stopped."));
  }
});

at("forget").addEventListener("click", () => {
  void end()
    .then(() => Promise.all([Identity.forget(), caches.delete("skein-artefacts")]))
    .then(() => {
      at("worker").textContent = "-";
      say("Forgotten: this browser is nobody now.");
    });
});

document.addEventListener("visibilitychange", () => again());
at("form").addEventListener("change", () => again());

slots.max = String(cores);
slots.value = String(Math.max(1, cores >> 1));
if (isSecureContext) {
  const asked = (navigator as { getBattery?: () => Promise<Battery> }).getBattery?.();
  asked?.then(
    (b) => {
      battery = b;
      b.addEventListener("chargingchange", () => again());
    },
    () => undefined,
  );
  start.disabled = false;
  say("Nothing runs.");
} else {
  say("This page must come over HTTPS.");
}
