// The ⋯ menu of every page: theme, keys, signing out; and dialogs that close.

import { call } from "./api.js";
import { all, at, memory, one } from "./page.js";

for (const menu of all("details.menu")) {
  addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) { menu.open = false; one("summary", menu).focus(); event.stopPropagation(); }
  });
  menu.addEventListener("click", (event) => { if (event.target.closest(".menu-body button")) menu.open = false; });
}

/** Dark is the default; light is kept in this browser. */
export function toggleTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "light" ? "dark" : "light";
  memoryRaw(root.dataset.theme);
  name();
}

// theme.js reads it before modules exist, so it is plain text.
function memoryRaw(theme) {
  try { localStorage.setItem("steelyard.theme", theme); } catch { memory.set("theme", theme); }
}

function name() {
  const light = document.documentElement.dataset.theme === "light";
  for (const node of all("[data-theme-name]")) node.textContent = light ? "Dark" : "Light";
}

for (const button of all("[data-do=theme]")) button.addEventListener("click", toggleTheme);
for (const button of all("[data-do=sign-out]")) {
  button.addEventListener("click", async () => {
    try {
      await call("DELETE", "/session");
    } catch (problem) {
      if (problem.status !== 401) { // the login page would look as if the session were over
        alert("You are still signed in: the server could not be told. Try again before you leave this computer.");
        return;
      }
    }
    location.assign(at("/login"));
  });
}
for (const button of all("[data-opens]")) {
  button.addEventListener("click", () => document.getElementById(button.dataset.opens)?.showModal());
}
for (const button of all("dialog [data-do=close]")) button.addEventListener("click", () => button.closest("dialog").close());
name();
