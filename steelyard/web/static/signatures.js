// Administration, signatures: who vouched for the study, and what has changed since.

import { call } from "./api.js";
import { announce, element, one } from "./page.js";

const note = one("#signatures-note");

function say(text, good = true) {
  note.hidden = false;
  note.textContent = text;
  note.className = `notice ${good ? "good" : "bad"}`;
  announce(text);
}

async function load() {
  const { signatures } = await call("GET", "/signatures");
  one("#signatures-none").hidden = signatures.length > 0;
  one("#signatures .table-box").hidden = signatures.length === 0;
  one("#signatures tbody").replaceChildren(...signatures.reverse().map((signature) => element("tr", {},
    element("th", { scope: "row" }, signature.signer),
    element("td", { "data-label": "When" }, new Date(signature.at * 1000).toLocaleString()),
    element("td", { "data-label": "Meaning" }, signature.meaning),
    element("td", { "data-label": "Identified by" }, signature.via),
    element("td", { "data-label": "Since then" }, signature.changed_since.join(", ") || "nothing has changed"))));
}

one("#signatures-add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = one("#signatures-add button");
  button.disabled = true; // signing takes a moment, and twice would be two signatures
  try {
    await call("POST", "/signatures", { body: { meaning: form.meaning.value.trim(), password: form.password?.value ?? "" } });
    form.reset();
    await load();
    say("Signed.");
  } catch (problem) {
    say(`${problem.message} Nothing was signed.`, false);
  } finally {
    button.disabled = false;
    if (form.password) form.password.value = "";
  }
});

load().catch((problem) => say(problem.message, false));
