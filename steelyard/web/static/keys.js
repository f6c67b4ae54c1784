// Keys → actions. People may choose their own; the study may have its own defaults.

import { all, announce, element, memory, page } from "./page.js";

const NAMES = {
  " ": "Space", arrowleft: "←", arrowright: "→", arrowup: "↑", arrowdown: "↓",
  enter: "Enter", escape: "Esc", backspace: "Backspace",
};

/** One spelling for a key: lower case, the space bar as a space. */
export const spell = (key) => (key === "Space" || key === "space" || key === "Spacebar" ? " " : key.toLowerCase());

/** How a key is written on the page. */
export const label = (key) => NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key);

export class Keys {
  /**
   * Whatever a key does stands in these tables and nowhere else: they are what is pressed and what the help lists.
   *
   * @param {Record<string, {key: string, text: string, run: () => void, fixed?: boolean}>} actions in the order they are
   *   listed; nobody gives a fixed one another key
   * @param {string} scope which page's keys are remembered
   * @param {Record<string, {title: string, actions: {keys: () => string[], text: string, run: () => void}[]}>} modes
   *   that have the keyboard for themselves (the reason of "cannot judge")
   */
  constructor(actions, scope, modes = {}) {
    this.actions = actions;
    this.modes = modes;
    this.scope = `keys.${scope}`;
    this.first = Object.fromEntries(
      Object.entries(actions).map(([name, action]) => [name, spell(page.keys?.[name] ?? action.key)]),
    );
    this.map = { ...this.first, ...memory.get(this.scope, {}) };
    this.mode = null; // the name of the mode that is on
    addEventListener("keydown", (event) => this.press(event));
    this.write();
  }

  press(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input:not([type=checkbox]), textarea, select, dialog[open], [contenteditable]")) return;
    const key = spell(event.key);
    // A focused control keeps the keys that work it.
    if ((key === " " || key === "enter") && target.closest("button, a, summary, input")) return;
    if (this.mode) {
      event.preventDefault();
      this.modes[this.mode].actions.find((action) => action.keys().includes(key))?.run();
      return;
    }
    const name = Object.keys(this.map).find((action) => this.map[action] === key);
    if (!name) return;
    event.preventDefault();
    this.actions[name].run();
  }

  /** Write the keys into every `<kbd data-key="action">`. */
  write() {
    for (const node of all("kbd[data-key]")) node.textContent = label(this.map[node.dataset.key] ?? "");
  }

  /** Give an action another key; whoever had it gets the old one. */
  set(name, key) {
    const other = Object.keys(this.map).find((action) => action !== name && this.map[action] === key);
    if (other) this.map[other] = this.map[name];
    this.map[name] = key;
    memory.set(this.scope, this.map);
    this.write();
  }

  /** Fill a table body: a row for each action, with a button that waits for a new key; then the keys of each mode. */
  list(body) {
    const row = (text, keys) => element("tr", {}, element("td", {}, text), element("td", {}, ...keys.map((key) => element("kbd", {}, label(key)))));
    const modes = Object.values(this.modes).flatMap(({ title, actions }) => [
      element("tr", {}, element("th", { scope: "colgroup", colspan: 2 }, title)),
      ...actions.map((action) => row(action.text, [...new Set(action.keys())])),
    ]);
    body.replaceChildren(...Object.entries(this.actions).map(([name, action]) => {
      if (action.fixed) return row(action.text, [this.map[name]]);
      const button = element("button", { type: "button", "aria-label": `Key for ${action.text}: ${label(this.map[name])}. Press to change` });
      button.append(element("kbd", {}, label(this.map[name])));
      button.addEventListener("click", () => {
        button.textContent = "press a key";
        const listen = (event) => {
          event.preventDefault();
          event.stopPropagation();
          if (event.key !== "Escape" && event.key !== "Tab") {
            this.set(name, spell(event.key));
            announce(`${action.text} is now ${label(spell(event.key))}`);
          }
          this.list(body);
          body.querySelector(`[data-action="${name}"] button`)?.focus();
        };
        button.addEventListener("keydown", listen, { once: true });
      });
      return element("tr", { dataset: { action: name } }, element("td", {}, action.text), element("td", {}, button));
    }), ...modes);
  }

  /** Back to the study's keys. */
  restore() {
    this.map = { ...this.first };
    memory.set(this.scope, {});
    this.write();
  }
}

/** A button clicked with the mouse gives the keyboard back, so that Space does not click it again. */
export function releaseClicks(root = document) {
  root.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (button && event.detail > 0 && !button.closest("dialog, form")) button.blur();
  });
}
