// What the server told this page, and saying things to a screen reader.

export const page = JSON.parse(document.getElementById("page-data")?.textContent ?? "{}");

/** The address of a page or route of this study: several may be served below one name. */
export const at = (path) => `${page.base ?? ""}${path}`;

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element with attributes, properties for `on…`, and children. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "dataset") Object.assign(node.dataset, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Tell a screen reader, politely. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = live.textContent === text ? `${text}\u00a0` : text;
}

/** One value kept in this browser; a browser that keeps nothing gives the fallback. */
export const memory = {
  get(key, fallback = null) {
    try {
      const text = localStorage.getItem(`steelyard.${key}`);
      return text === null ? fallback : JSON.parse(text);
    } catch { return fallback; }
  },
  set(key, value) {
    try { localStorage.setItem(`steelyard.${key}`, JSON.stringify(value)); } catch { /* kept for this page only */ }
  },
  drop(key) {
    try { localStorage.removeItem(`steelyard.${key}`); } catch { /* nothing was kept */ }
  },
};
