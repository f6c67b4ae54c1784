// Signing in. A link keeps its secret behind the “#”, which browsers do not send: it is in no server log.

import { call } from "./api.js";
import { announce, one, page } from "./page.js";

const note = one("#login-note");
const onwards = () => location.replace(page.onwards);

function refuse(problem) {
  note.hidden = false;
  note.textContent = problem.status === 0 ? "The server cannot be reached. Try again in a moment." : problem.message;
  announce(note.textContent);
}

async function enter(body) {
  note.hidden = true;
  try {
    const me = await call("POST", "/session", { body });
    page.csrf = me.csrf;
    if (me.needs_password) choose(me.name); else onwards();
  } catch (problem) { refuse(problem); }
}

/** Somebody came by a link that worked once: without a password they could not come back. */
function choose(name) {
  one("#enter").hidden = true;
  one("#choose").hidden = false;
  one("#choose-name").textContent = name;
  const form = one("#choose-password");
  form.username.value = name;
  form.password.focus();
  one("#choose-later").href = page.onwards;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    note.hidden = true;
    try {
      await call("POST", `/annotators/${encodeURIComponent(name)}/password`, { body: { password: form.password.value } });
      onwards();
    } catch (problem) { refuse(problem); }
  });
}

one("#login")?.addEventListener("submit", (event) => {
  event.preventDefault();
  enter({ name: event.target.name.value.trim(), password: event.target.password.value });
});

one("#open")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const given = event.target.key.value.trim();
  enter({ key: given.includes("key=") ? given.split("key=")[1] : given });
});

/** Use the secret of the address, and take it out of the address. */
function useLink() {
  const secret = new URLSearchParams(location.hash.slice(1));
  for (const kind of ["link", "key"]) {
    if (!secret.get(kind)) continue;
    history.replaceState(null, "", location.pathname + location.search);
    enter({ [kind]: secret.get(kind) });
  }
}
useLink();
addEventListener("hashchange", useLink); // a link opened where this page is shown already does not load it again
