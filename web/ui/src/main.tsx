/*! preact 10.29.8 is in this page: MIT license, Copyright (c) 2015-present Jason Miller */
import { render } from "preact";
import { enter } from "./session";
import { changed, follow, state } from "./store";
import { Shell } from "./shell";

const root = document.getElementById("app");
if (root) {
  render(<Shell />, root);
  void enter().then((may) => {
    if (may) return follow();
    state.stream = "locked";
    changed();
  });
}
