// What comparing and grading share: the queue with its dot, progress and pace, the dialogs, the break.

import { call, Problem } from "./api.js";
import { about, median, number } from "./format.js";
import { announce, memory, one, page } from "./page.js";
import { Queue } from "./queue.js";
import { Stuck } from "./stuck.js";

const ROUTES = {
  comparison: (e) => call("POST", "/comparisons", { body: e.body, keepalive: true }),
  grade: (e) => call("POST", "/grades", { body: e.body, keepalive: true }),
  undo: (e) => call("POST", `/comparisons/${e.of}/undo`, { body: { id: e.id }, keepalive: true }),
  "undo grade": (e) => call("POST", `/grades/${e.of}/undo`, { body: { id: e.id }, keepalive: true }),
};

/** Send an event; one that this version does not know waits for a person, like any other that cannot be sent. */
const send = async (event) => {
  const route = ROUTES[event.kind];
  if (!route) throw new Problem(422, "Unknown", `This version of the page cannot send “${event.kind}”.`);
  return route(event);
};

const LONG = 60; // seconds; a longer look was a telephone call, not a judgement
const SLOW = 1500; // milliseconds of sending until the dot says so
const PAUSE = 300; // seconds without an answer that count as a break

export class Desk {
  /** @param {string} noun what is answered here, "answer" or "grade" */
  constructor(noun) {
    this.noun = noun;
    this.queue = new Queue(`${page.study}.${page.annotator}`, send);
    this.stuck = new Stuck(this.queue, noun);
    this.dot = one("#saved");
    this.pace = one("#pace");
    this.line = one("#line");
    this.times = memory.get(`pace.${noun}`, []);
    this.done = page.done ?? 0;
    this.wanted = page.wanted ?? 0;
    this.changes = 0; // answers given and taken back on this page
    this.since = Date.now();
    this.last = Date.now();
    this.queue.addEventListener("state", () => this.showSaved());
    this.queue.addEventListener("refused", ({ detail }) => announce(`An answer was refused: ${detail.problem.message}`));
    this.dot.addEventListener("click", () => this.stuck.open());
    this.showSaved();
    this.showPace();
    this.queue.pump();
  }

  /** Bring an item into view; the next one is laid underneath. */
  present(viewer, item, next) {
    viewer.busy = true;
    item.load();
    one("#finished").hidden = true;
    one("#working").hidden = false;
    viewer.fit();
    viewer.show(item.nodes, next?.nodes ?? []);
  }

  /** Count one answer that took some seconds. */
  counted(seconds) {
    this.done += 1;
    this.changes += 1;
    this.times = [...this.times, Math.min(seconds, LONG)].slice(-30);
    memory.set(`pace.${this.noun}`, this.times);
    if ((Date.now() - this.last) / 1000 > PAUSE) this.since = Date.now();
    this.last = Date.now();
    this.showPace();
    this.suggestBreak();
  }

  uncounted() {
    this.done = Math.max(0, this.done - 1);
    this.changes += 1;
    this.showPace();
  }

  /** What to remember when asking the server: null while it does not have everything. */
  moment() {
    return this.queue.keys().length ? null : this.changes;
  }

  /** The server knows better, if it had everything when it was asked: a reply may cross an answer. */
  settle(done, wanted, asked = this.moment()) {
    this.wanted = wanted;
    if (asked !== null && asked === this.moment()) this.done = done;
    this.showPace();
  }

  showPace() {
    const left = Math.max(0, this.wanted - this.done);
    const seconds = this.times.length >= 3 ? median(this.times) * left : 0;
    const time = seconds && left ? ` · ${about(seconds)}` : "";
    this.pace.textContent = this.wanted ? `${number(this.done)} of ${number(this.wanted)}${time}` : `${number(this.done)} ${this.noun}s`;
    const share = this.wanted ? Math.min(1, this.done / this.wanted) : 0;
    this.line.firstElementChild.style.width = `${share * 100}%`;
    this.line.setAttribute("aria-valuenow", Math.round(share * 100));
  }

  showSaved() {
    const { queue } = this;
    const waiting = queue.keys().length;
    const needed = queue.memory.size > 0 || queue.refused().length > 0;
    const state = needed ? "stuck" : queue.state;
    const texts = {
      saved: "saved",
      // A moment's sending is not worth a word; what takes longer is not saved yet, and is not called so.
      sending: this.slow ? `saving (${waiting})` : this.dot.textContent,
      waiting: `waiting for the network (${waiting})`,
      stuck: "needs you",
    };
    clearTimeout(this.patience);
    if (state === "sending") this.patience = setTimeout(() => { this.slow = true; this.showSaved(); }, SLOW);
    else this.slow = false;
    if (this.dot.dataset.state !== state && (state === "stuck" || state === "waiting")) announce(texts[state]);
    this.dot.dataset.state = state;
    this.dot.textContent = texts[state];
    this.dot.disabled = state === "saved" || state === "sending";
  }

  suggestBreak() {
    const minutes = (Date.now() - this.since) / 60000;
    const note = one("#break");
    if (!page.breakMinutes || minutes < page.breakMinutes || this.reminded === this.since) return;
    this.reminded = this.since;
    note.hidden = false;
    const text = `${Math.round(minutes)} minutes without a break. A short break keeps your eye sharp.`;
    note.firstElementChild.textContent = text;
    announce(text);
    one("button", note).addEventListener("click", () => { note.hidden = true; this.since = Date.now(); }, { once: true });
  }
}
