// What the tests ask of a page that computes.
import { Client, Identity, Store, guestRandom, maxConfigBytes, maxModuleBytes, run } from "WORK.js";

window.store = new Store();

const base64 = (bytes) => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4096) {
    text += String.fromCharCode(...bytes.subarray(at, at + 4096));
  }
  return btoa(text);
};

window.work = async (task, stopAfter) => {
  const module = await store.get(task.spec.artefact, maxModuleBytes);
  const config = task.spec.config ? await store.get(task.spec.config, maxConfigBytes) : new Uint8Array(0);
  const stop = new AbortController();
  if (stopAfter > 0) {
    setTimeout(() => stop.abort(), stopAfter);
  } else if (stopAfter < 0) {
    stop.abort();
  }
  const told = [];
  const o = await run(task, module, config, (done) => told.push(String(done)), stop.signal);
  return { ...o, told, output: base64(o.output ?? new Uint8Array(0)) };
};

window.random = async (seed, offset, sizes) => {
  const source = await guestRandom(seed, offset);
  let text = "";
  for (const n of sizes) {
    const b = new Uint8Array(n);
    source.fill(b);
    text += [...b].map((v) => v.toString(16).padStart(2, "0")).join("");
  }
  return text;
};

window.keepSome = async (hashes, limit) => {
  const small = new Store({ name: "small", limit });
  for (const h of hashes) {
    await small.get(h, 1000);
  }
  const cache = await caches.open("small");
  return (await cache.keys()).map((k) => k.url.split("/").pop());
};

window.begin = (worker, slots) => {
  window.client = new Client({ worker, slots, memoryBytes: 1n << 30n, token: async () => "token of " + worker });
  return true;
};

window.identify = async () => {
  const all = await Promise.all([Identity.open(), Identity.open()]);
  if (all[0].id !== all[1].id) {
    throw new Error("two identities");
  }
  const me = all[0];
  const said = await me.register("attic");
  await me.token();
  const token = await me.token();
  const key = await new Promise((done) => {
    const opening = indexedDB.open("skein");
    opening.onsuccess = () => {
      const got = opening.result.transaction("keys").objectStore("keys").get("worker");
      got.onsuccess = () => {
        opening.result.close();
        done(got.result.privateKey);
      };
    };
  });
  const exported = await crypto.subtle.exportKey("pkcs8", key).then(() => "it leaves", (e) => e.name);
  const stored = `${key.type}, ${key.extractable ? "" : "not "}extractable`;
  return { id: me.id, worker: said.worker, code: said.claim_code, token, export: exported, stored };
};

window.forget = () => Identity.forget();
