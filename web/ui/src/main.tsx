/*! preact 10.29.8 is in this page: MIT license, Copyright (c) 2015-present Jason Miller */
import { render } from "preact";
import { enter } from "./session";
import { changed, follow, learn, state } from "./store";
import { Shell } from "./shell";

const root = document.getElementById("app"), plain = document.getElementById("plain");
if (root) {
  const entered = enter(); // first: it leaves the code out of the address, and the page that is shown in it
  // What came with the page stays until there is a picture of its own.
  const show = () => { plain?.remove(); render(<Shell />, root); };
  if (plain) {
    const began = Date.now(), timer = setInterval(() => {
      if (!state.synced && state.stream !== "locked" && state.stream !== "ended" && Date.now() - began < 4000) return;
      clearInterval(timer);
      show();
    }, 50);
  } else show();
  void entered.then((may) => {
    if (may) void learn();
    if (may) return follow();
    state.stream = "locked";
    changed();
  });
}
