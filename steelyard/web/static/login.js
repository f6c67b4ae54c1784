// Signing in. A personal link keeps its secret behind the “#”, which browsers do not send: it is in no server log.

import { call } from "./api.js";
import { announce, one, page } from "./page.js";

const form = one("#login");
const note = one("#login-note");

async function enter(body) {
  note.hidden = true;
  try {
    await call("POST", "/session", { body });
    location.replace(page.next || "/compare");
  } catch (problem) {
    note.hidden = false;
    note.textContent = problem.status === 0 ? "The server cannot be reached. Try again in a moment." : problem.message;
    announce(note.textContent);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter({ name: form.name.value.trim(), password: form.password.value });
});

const secret = new URLSearchParams(location.hash.slice(1)).get("link");
if (secret) {
  history.replaceState(null, "", location.pathname + location.search);
  enter({ link: secret });
}
