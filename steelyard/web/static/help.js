// What a person can do on this page: every key from the table that the keys themselves use, or, on a touch screen, the
// gestures that the pictures understand. Esc or a click anywhere closes it.

import { spell } from "./keys.js";
import { all, element, memory, one } from "./page.js";

const finger = matchMedia("(hover: none) and (pointer: coarse)");

export class Help {
  /**
   * @param {import("./keys.js").Keys} keys
   * @param {() => [string, string][]} gestures what a finger does, and what that means
   * @param {string[]} [first] actions shown on the first visit, until the first answer
   */
  constructor(keys, gestures, first = []) {
    this.keys = keys;
    this.gestures = gestures;
    this.first = first;
    this.dialog = one("#keys");
    this.overlay = one("#overlay");
    for (const button of all("[data-opens=keys]")) button.addEventListener("click", () => this.draw());
    one("#help")?.addEventListener("click", () => this.open());
    one("#keys-restore").addEventListener("click", () => { keys.restore(); this.draw(); });
    this.dialog.addEventListener("click", (event) => {
      // By its path: what was clicked in a button may be gone by now.
      if (!event.composedPath().some((node) => node.localName === "button")) this.dialog.close();
    });
    this.dialog.addEventListener("keydown", (event) => {
      if (!this.dialog.open || spell(event.key) !== keys.map.help) return;
      event.preventDefault();
      event.stopPropagation(); // or the page would open it again
      this.dialog.close();
    });
    if (this.overlay) this.welcome();
  }

  open() {
    this.over();
    this.draw();
    this.dialog.showModal();
  }

  draw() {
    one("#keys-title").textContent = finger.matches ? "By touch" : "Keys";
    for (const node of all(".with-keys", this.dialog)) node.hidden = finger.matches;
    one("#gestures").hidden = !finger.matches;
    one("#gestures").replaceChildren(...pairs(this.gestures()));
    this.keys.list(one("#keys-body"));
  }

  /** On the first visit a few words lie over the pictures. */
  welcome() {
    const seen = memory.get("seen.compare", false);
    this.overlay.hidden = seen;
    if (seen) return;
    one("h2", this.overlay).textContent = finger.matches ? "By touch" : "Five keys";
    const keys = this.first.map((name) => [element("kbd", { dataset: { key: name } }), this.keys.actions[name].text]);
    one("dl", this.overlay).replaceChildren(...pairs(finger.matches ? this.gestures() : keys));
    one("p", this.overlay).textContent = `${finger.matches ? "A tap" : "Esc or a click"} puts this away.`;
    this.keys.write();
    addEventListener("click", () => this.over(), { once: true });
  }

  /** The first visit is over: something was answered, or what it says was read and put away. */
  over() {
    if (!this.overlay || this.overlay.hidden) return;
    this.overlay.hidden = true;
    memory.set("seen.compare", true);
  }
}

const pairs = (rows) => rows.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]);
