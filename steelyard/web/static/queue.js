// Answers wait here until the server has them. Each is one entry of localStorage, written before the page moves
// on, so a closed tab, a crash or a dead network loses nothing; each carries an id made here, so the server takes
// it once however often it arrives.

/**
 * A durable, ordered queue of events.
 *
 * States: `saved` (empty), `sending`, `waiting` (the network or the server will be tried again), `stuck` (only the
 * person can help: sign in again, or an answer was refused).
 */
export class Queue extends EventTarget {
  /**
   * @param {string} scope study and annotator; other people's entries in this browser are not touched
   * @param {(event: object) => Promise<object>} send rejects with a Problem
   */
  constructor(scope, send, storage = globalThis.localStorage) {
    super();
    this.prefix = `steelyard.queue.${scope}.`;
    this.send = send;
    this.storage = storage;
    this.memory = new Map(); // entries that the browser would not store
    this.state = "saved";
    this.problem = null;
    this.refused = [];
    this.delay = 1000;
    this.order = 0;
    addEventListener("online", () => this.retry());
    addEventListener("beforeunload", (event) => { if (this.memory.size) event.preventDefault(); });
  }

  /** Keep an event and start sending. The order of adding is the order of sending. */
  add(event) {
    const key = `${this.prefix}${Date.now().toString().padStart(15, "0")}.${String(this.order++).padStart(6, "0")}`;
    try {
      this.storage.setItem(key, JSON.stringify(event));
    } catch {
      this.memory.set(key, event);
    }
    this.pump();
  }

  keys() {
    const keys = [...this.memory.keys()];
    for (let i = 0; i < this.storage.length; i++) {
      const key = this.storage.key(i);
      if (key?.startsWith(this.prefix)) keys.push(key);
    }
    return keys.sort();
  }

  read(key) {
    if (this.memory.has(key)) return this.memory.get(key);
    const text = this.storage.getItem(key);
    return text === null ? null : JSON.parse(text);
  }

  remove(key) {
    this.memory.delete(key);
    this.storage.removeItem(key);
  }

  /** Events not yet acknowledged, oldest first. */
  pending() {
    return this.keys().map((key) => this.read(key)).filter(Boolean);
  }

  /** Try again now. */
  retry() {
    clearTimeout(this.timer);
    this.delay = 1000;
    this.pump();
  }

  async pump() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    try {
      for (let keys = this.keys(); keys.length; keys = this.keys()) {
        if (this.state !== "waiting") this.show("sending");
        const event = this.read(keys[0]);
        if (event === null) continue; // another tab of the same person sent it
        try {
          const result = await this.send(event);
          this.remove(keys[0]);
          this.delay = 1000;
          this.dispatchEvent(new CustomEvent("sent", { detail: { event, result } }));
        } catch (problem) {
          if (problem.passing) {
            this.timer = setTimeout(() => this.pump(), this.delay);
            this.delay = Math.min(this.delay * 2, 15000);
            this.show("waiting", problem);
            return;
          }
          if (problem.status === 401 || problem.status === 403) {
            this.show("stuck", problem);
            return;
          }
          this.refused.push({ event, problem });
          this.remove(keys[0]);
          this.dispatchEvent(new CustomEvent("refused", { detail: { event, problem } }));
        }
      }
      this.show(this.refused.length ? "stuck" : "saved", this.refused.at(-1)?.problem ?? null);
    } finally {
      this.busy = false;
    }
  }

  show(state, problem = null) {
    this.state = state;
    this.problem = problem;
    this.dispatchEvent(new Event("state"));
  }
}
