// The link of a start on this machine carries the key of all its studies behind the “#”, which browsers do not send.

import "./menu.js"; // signing out
import { one } from "./page.js";

async function useKey() {
  const given = new URLSearchParams(location.hash.slice(1));
  const key = given.get("key");
  if (!key) return;
  history.replaceState(null, "", location.pathname);
  const opened = await Promise.all((given.get("studies") ?? "").split(",").map((name) => fetch(`/s/${encodeURIComponent(name)}/api/v1/session`, {
    method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key }),
  }).then((reply) => reply.ok, () => false)));
  if (opened.some(Boolean)) { location.replace("/"); return; }
  const note = one("#start-note");
  note.hidden = false;
  note.textContent = "This link is wrong or from an earlier start; open the one printed in the terminal.";
}
useKey();
addEventListener("hashchange", useKey);
