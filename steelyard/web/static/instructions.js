// Instructions: read, or agreed to, once for each version; then to work.

import { call } from "./api.js";
import "./menu.js";
import { announce, at, one, page } from "./page.js";

one("#accept")?.addEventListener("click", async ({ target }) => {
  const note = one("#accept-note");
  target.disabled = true;
  try {
    await call("POST", "/instructions", { body: { version: page.version } });
    location.assign(at(page.next));
  } catch (problem) {
    target.disabled = false;
    note.hidden = false;
    note.textContent = problem.status === 409 ? "The text was changed while you read it; it is loaded again." : `${problem.message} Nothing was noted; try again.`;
    announce(note.textContent);
    if (problem.status === 409) setTimeout(() => location.reload(), 2000);
  }
});
