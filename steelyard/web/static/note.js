// What the study waits for, in one quiet line: told with every batch of pairs, and looked up again while it stands.

import { call } from "./api.js";
import { announce, one } from "./page.js";

const AGAIN = 5000; // milliseconds

let timer = null;

export function showNote(text) {
  const node = one("#note");
  if (text && !node.textContent) announce(text);
  node.textContent = text;
  clearTimeout(timer);
  if (text) timer = setTimeout(lookAgain, AGAIN);
}

async function lookAgain() {
  try {
    showNote((await call("GET", "/study")).note);
  } catch {
    timer = setTimeout(lookAgain, AGAIN); // the dot says that the server is away
  }
}
