// Answers wait here until the server has them. Each is one entry of localStorage, written before the page moves
// on, so a closed tab, a crash or a dead network loses nothing; each carries an id made here, so the server takes
// it once however often it arrives. An entry goes only when the server has acknowledged that id, or when the person
// says so: what the server refused is kept under a key of its own, and the others go on being sent.

import { Problem } from "./api.js";

const FIRST = 1000; // ms until the first retry; doubled from one to the next
const LONGEST = 15000;
const PATIENCE = 300; // s; a server may ask for more time than that, but it is not believed

const PLACE = /^\d{15}\.\d{6,}$/; // how a key ends: when, and which of that moment

/** The id that an acknowledgement has to carry. */
const idOf = (event) => String(event?.body?.id ?? event?.id ?? "").toLowerCase();

/**
 * A durable, ordered queue of events.
 *
 * States: `saved` (empty), `sending`, `waiting` (the network or the server will be tried again), `stuck` (only the
 * person can help: sign in again, or decide about what was refused).
 */
export class Queue extends EventTarget {
  /**
   * @param {string} scope study and annotator; other people's entries in this browser are not touched
   * @param {(event: object) => Promise<object>} send rejects with a Problem
   */
  constructor(scope, send, storage = browserStorage()) {
    super();
    this.prefix = `steelyard.queue.${scope}.`;
    this.aside = `steelyard.refused.${scope}.`;
    this.send = send;
    this.storage = storage;
    this.memory = new Map(); // what the browser would not store: key → text
    this.held = new Set(); // refused entries that stay where they are, because the browser has no room to move them
    this.state = "saved";
    this.problem = null;
    this.delay = FIRST;
    this.order = 0;
    addEventListener("online", () => this.retry());
    // Signed in again in another tab, or another tab decided about what was refused.
    addEventListener("focus", () => { if (this.state === "stuck") this.retry(); });
    addEventListener("storage", (event) => { if (event.key?.startsWith(this.aside) && !this.busy) this.pump(); });
    addEventListener("beforeunload", (event) => { if (this.memory.size) event.preventDefault(); });
  }

  /** Keep an event and start sending. The order of adding is the order of sending. */
  add(event) {
    const next = () => `${this.prefix}${Date.now().toString().padStart(15, "0")}.${String(this.order++).padStart(6, "0")}`;
    let key = next();
    while (this.get(key) !== null) key = next(); // another tab was here in the same millisecond
    this.put(key, JSON.stringify(event));
    this.pump();
  }

  // ---- entries

  put(key, text) {
    try {
      this.storage.setItem(key, text);
      this.memory.delete(key);
    } catch {
      this.memory.set(key, text);
    }
  }

  get(key) {
    return this.memory.get(key) ?? this.storage.getItem(key);
  }

  drop(key) {
    this.memory.delete(key);
    this.storage.removeItem(key);
  }

  list(prefix) {
    const keys = new Set(this.memory.keys());
    for (let i = 0; i < this.storage.length; i++) keys.add(this.storage.key(i));
    // The whole key: entries of “kt.b” begin like those of “kt”.
    return [...keys].filter((key) => key?.startsWith(prefix) && PLACE.test(key.slice(prefix.length))).sort();
  }

  /** Entries that are still to be sent, oldest first. */
  keys() {
    return this.list(this.prefix).filter((key) => !this.held.has(key));
  }

  /** Events not yet acknowledged, oldest first. */
  pending() {
    return this.keys().map((key) => parsed(this.get(key))).filter(Boolean);
  }

  // ---- what was refused

  /**
   * What the server would not take, oldest first: `{ key, event, text, reason, status, followed }`. `event` is null where
   * an entry cannot be read, `text` is the entry as it was; `followed` are undos of it, which go where it goes.
   */
  refused() {
    return this.list(this.aside).map((key) => {
      const kept = parsed(this.get(key)) ?? { text: this.get(key), reason: UNREADABLE };
      return { status: 0, followed: [], ...kept, key, event: parsed(kept.text) };
    });
  }

  /** Keep an entry aside; it leaves the queue only when it is safely there. */
  setAside(key, text, problem) {
    const record = { text, reason: problem.message, status: problem.status ?? 0, at: Date.now() / 1000, followed: [] };
    const place = this.aside + key.slice(this.prefix.length);
    this.put(place, JSON.stringify(record));
    if (this.memory.has(place)) this.held.add(key);
    else this.drop(key);
    this.dispatchEvent(new CustomEvent("refused", { detail: { event: parsed(text), problem } }));
  }

  /** An undo of an answer that was refused has nothing to undo on the server: it stays with its answer. */
  follows(key, event) {
    if (!event.of) return false;
    const answer = this.refused().find((one) => one.event && idOf(one.event) === String(event.of).toLowerCase());
    if (!answer) return false;
    const { text, reason, status, at, followed } = answer;
    followed.push({ key: key.slice(this.prefix.length), text: JSON.stringify(event) });
    this.put(answer.key, JSON.stringify({ text, reason, status, at, followed }));
    if (this.memory.has(answer.key)) this.held.add(key); // no room: it stays where a closed tab leaves it
    else this.drop(key);
    return true;
  }

  /** Send what was refused once more, in its old place, and what followed it. */
  sendAgain(...records) {
    for (const { key, text, followed } of records) {
      const entries = [{ key: key.slice(this.aside.length), text }, ...followed];
      for (const entry of entries) this.put(this.prefix + entry.key, entry.text);
      if (!entries.some((entry) => this.memory.has(this.prefix + entry.key))) this.drop(key);
    }
    this.held.clear();
    this.retry();
  }

  /** The person has decided: forget what was refused, and what followed it. */
  discard(...records) {
    for (const { key, followed } of records) {
      for (const place of [key.slice(this.aside.length), ...followed.map((undo) => undo.key)]) this.drop(this.prefix + place);
      this.drop(key);
    }
    this.held.clear();
    this.retry();
  }

  // ---- sending

  /** Try again now. */
  retry() {
    clearTimeout(this.timer);
    this.delay = FIRST;
    this.pump();
  }

  async pump() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    try {
      for (let keys = this.keys(); keys.length; keys = this.keys()) {
        if (this.state !== "waiting") this.show("sending", this.problem);
        const [key] = keys;
        const text = this.get(key);
        if (text === null) continue; // another tab of the same person sent it
        const event = parsed(text);
        if (!event || !idOf(event)) { this.setAside(key, text, { message: UNREADABLE }); continue; }
        if (this.follows(key, event)) continue;
        try {
          const result = await this.send(event);
          if (idOf(result) !== idOf(event)) throw new Problem(0, "No answer", "What answered was not Steelyard’s server.");
          this.drop(key);
          this.delay = FIRST;
          this.dispatchEvent(new CustomEvent("sent", { detail: { event, result } }));
        } catch (error) {
          const problem = error instanceof Problem ? error : new Problem(0, "Not sent", String(error?.message ?? error));
          if (problem.passing) { this.wait(problem); return; }
          if (problem.personal) { this.show("stuck", problem); return; }
          this.setAside(key, text, problem);
        }
      }
      this.show(this.list(this.aside).length ? "stuck" : "saved");
    } finally {
      this.busy = false;
    }
  }

  wait(problem) {
    const asked = Math.min(problem.after, PATIENCE) * 1000;
    // A little apart from each other: fifty browsers must not come back in the same instant.
    this.timer = setTimeout(() => this.pump(), Math.max(this.delay, asked) * (1 + Math.random() / 4));
    this.delay = Math.min(this.delay * 2, LONGEST);
    this.show("waiting", problem);
  }

  show(state, problem = null) {
    this.state = state;
    this.problem = problem;
    this.dispatchEvent(new Event("state"));
  }
}

const UNREADABLE = "This entry of the browser’s storage cannot be read.";

/** The object behind an entry, or null. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : null;
  } catch { return null; }
}

/** localStorage; a browser that forbids it gets one that keeps nothing, and the page says so. */
function browserStorage() {
  try {
    return globalThis.localStorage;
  } catch {
    return { length: 0, key: () => null, getItem: () => null, removeItem() {}, setItem() { throw new Error("forbidden"); } };
  }
}
