// What comparing, grading and adjudicating share: the queue with its dot, progress and pace, the dialogs, the break.

import { call, Problem } from "./api.js";
import { about, count, median, percent, planned } from "./format.js";
import { all, announce, element, memory, one, page } from "./page.js";
import { Queue } from "./queue.js";
import { place, stacked, swipes } from "./sides.js";
import { Stuck } from "./stuck.js";

const ROUTES = {
  comparison: (e) => call("POST", "/comparisons", { body: e.body, keepalive: true }),
  grade: (e) => call("POST", "/grades", { body: e.body, keepalive: true }),
  decision: (e) => call("POST", "/decisions", { body: e.body, keepalive: true }),
  undo: (e) => call("POST", `/comparisons/${e.of}/undo`, { body: { id: e.id }, keepalive: true }),
  "undo grade": (e) => call("POST", `/grades/${e.of}/undo`, { body: { id: e.id }, keepalive: true }),
  "undo decision": (e) => call("POST", `/decisions/${e.of}/undo`, { body: { id: e.id }, keepalive: true }),
};

/** Send an event; one that this version does not know waits for a person, like any other that cannot be sent. */
const send = async (event) => {
  const route = ROUTES[event.kind];
  if (!route) throw new Problem(422, "Unknown", `This version of the page cannot send “${event.kind}”.`);
  return route(event);
};

const WORDED = "steelyard.worded"; // for this tab: the wording for which the page was loaded again, and that it just was
const ANEW = "steelyard.anew";
const LONG = 60; // seconds; a longer look was a telephone call, not a judgement
const SLOW = 1500; // milliseconds of sending until the dot says so
const PAUSE = 300; // seconds without an answer that count as a break
const AGAIN = 5000; // milliseconds until a picture that could not be loaded is tried again

export class Desk {
  /** @param {string} noun what is answered here, "answer", "grade" or "decision" */
  constructor(noun) {
    this.noun = noun;
    this.queue = new Queue(`${page.study}.${page.annotator}`, send);
    this.stuck = new Stuck(this.queue, noun);
    this.dot = one("#saved");
    this.pace = one("#pace");
    this.line = one("#line");
    this.times = memory.get(`pace.${noun}`, []);
    this.done = page.done ?? 0; // by everybody
    this.mine = page.mine ?? 0;
    this.wanted = page.wanted ?? 0;
    this.changes = 0; // answers given and taken back on this page
    // Across a reload: work without a pause since when, how many answers, and the last of them.
    const { since, run, last } = memory.get(`work.${noun}`, {});
    const going = Date.now() - (last ?? 0) < PAUSE * 1000;
    this.since = going ? since : Date.now();
    this.run = going ? run : 0;
    this.last = Date.now();
    one("#break button").addEventListener("click", () => this.back());
    addEventListener("keydown", (event) => { if (event.key === "Escape") this.back(); });
    this.queue.addEventListener("state", () => this.showSaved());
    this.queue.addEventListener("refused", ({ detail }) => announce(`An answer was refused: ${detail.problem.message}`));
    this.dot.addEventListener("click", () => this.stuck.open());
    this.showSaved();
    this.showPace();
    this.queue.pump();
  }

  /**
   * The server says with its replies how the study is worded now. A page that says something else is loaded again, once for
   * each wording: what was answered is kept, and what is in sight comes back.
   */
  worded(reply) {
    if (!reply?.wording || reply.wording === page.wording || this.queue.memory.size) return;
    try {
      // Another server of this study may not have heard of it yet: no page goes round in circles between two of them.
      if (sessionStorage.getItem(WORDED) === reply.wording) return;
      sessionStorage.setItem(WORDED, reply.wording);
      sessionStorage.setItem(ANEW, "yes");
    } catch { return; }
    location.reload();
  }

  /** After that, say so over the picture: the question may be another one. */
  sayAnew() {
    try {
      if (!sessionStorage.getItem(ANEW)) return;
      sessionStorage.removeItem(ANEW);
    } catch { return; }
    const text = "The wording of this study was changed. Please read it again.";
    this.note(one(".frame"), element("p", {}, text));
    announce(text);
  }

  /** Bring an item into view; the next one is laid underneath. Resolves when it can be answered: everything is painted. */
  present(viewer, item, next) {
    this.forget();
    viewer.busy = true;
    item.load();
    one("#finished").hidden = true;
    one("#working").hidden = false;
    viewer.fit();
    viewer.show(item.nodes, next?.nodes ?? []);
    this.sayAnew();
    return item.painted();
  }

  /** Say below the pictures how they are looked at, and offer to look at them as they are. */
  watch(viewer) {
    one("#reset").addEventListener("click", () => viewer.reset());
    viewer.addEventListener("change", () => {
      const changed = viewer.zoom !== 1 || viewer.brightness !== 1 || viewer.contrast !== 1;
      one("#reset").hidden = !changed;
      one("#look").textContent = changed ? `${viewer.zoom.toFixed(1)}× · brightness ${percent(viewer.brightness)} · contrast ${percent(viewer.contrast)}` : "";
    });
  }

  /**
   * The same for two pictures, of which a swipe chooses one; where they are stacked they are called top and bottom.
   * @param {(side: "left" | "right") => void} choose
   * @param {() => void} turned the places have other names now
   */
  watchPair(viewer, choose, turned = () => {}) {
    this.watch(viewer);
    viewer.addEventListener("swipe", ({ detail }) => {
      const side = swipes()[detail];
      if (side) choose(side);
    });
    new ResizeObserver(() => {
      for (const side of ["left", "right"]) one(`[data-answer="${side}"] span`).textContent = stacked() ? `${place(side)} one` : "this one";
      turned();
    }).observe(one(".frames"));
  }

  /** What to say where the server has nothing to show, because files are not where they were. */
  get lacking() {
    return "Their files are not where they were, so nothing is asked; no answer is lost. Whoever runs the study can say where they are now, and this page then goes on by itself.";
  }

  /** Write something into a frame, until the next item comes. */
  note(frame, ...content) {
    // The frame catches the pointer to pan; a button in it would never be clicked.
    frame.append(element("div", { class: "frame-note", onpointerdown: (event) => event.stopPropagation() }, ...content));
  }

  /**
   * A picture cannot be loaded: say so where it should be and try again. Nothing can be answered meanwhile.
   * @param {() => void} skip go on to the next item
   * @param {(item: Item) => void} found it could be loaded after all
   */
  missing(viewer, item, skip, found) {
    const what = this.noun === "grade" ? "image" : "pair";
    const text = `A picture could not be loaded, so nothing is recorded about this ${what}.`;
    announce(text);
    // The other picture may be on its way still.
    const lacking = viewer.frames.filter((_, index) => item.nodes[index]?.complete && !item.nodes[index].naturalWidth);
    for (const node of item.nodes) if (node.complete && !node.naturalWidth) node.style.visibility = "hidden"; // no torn icon
    for (const frame of lacking.length ? lacking : viewer.frames) {
      this.note(frame, element("p", {}, `${text} It is tried again every few seconds.`),
        element("button", { type: "button", onclick: skip }, `Next ${what}`));
    }
    const again = async () => {
      const fresh = item.again();
      const watch = (this.trying = setTimeout(again, AGAIN));
      try { await fresh.decoded(); } catch { return; }
      if (this.trying === watch) found(fresh);
    };
    this.trying = setTimeout(again, AGAIN);
  }

  /** Drop what was written into frames, and stop trying. */
  forget() {
    clearTimeout(this.trying);
    this.trying = 0;
    for (const note of all(".frame-note")) note.remove();
  }

  /** Count one answer that took some seconds; one to a further question about a pair counts for the pace alone. */
  counted(seconds, counts = true) {
    this.done += Number(counts);
    this.mine += Number(counts);
    this.changes += 1;
    this.times = [...this.times, Math.min(seconds, LONG)].slice(-30);
    memory.set(`pace.${this.noun}`, this.times);
    if ((Date.now() - this.last) / 1000 > PAUSE) { this.since = Date.now(); this.run = 0; }
    this.run += 1;
    this.last = Date.now();
    memory.set(`work.${this.noun}`, { since: this.since, run: this.run, last: this.last });
    this.showPace();
    this.suggestBreak();
  }

  uncounted(counts = true) {
    this.done = Math.max(0, this.done - Number(counts));
    this.mine = Math.max(0, this.mine - Number(counts));
    this.changes += 1;
    this.showPace();
  }

  /** What to remember when asking the server: null while it does not have everything. */
  moment() {
    return this.queue.keys().length ? null : this.changes;
  }

  /** The server knows better, if it had everything when it was asked: a reply may cross an answer. */
  settle({ done, mine, wanted }, asked = this.moment()) {
    this.wanted = wanted;
    if (asked !== null && asked === this.moment()) {
      this.done = done;
      this.mine = mine ?? this.mine;
    }
    this.showPace();
  }

  showPace() {
    const left = Math.max(0, this.wanted - this.done);
    // How fast others are is not known here, so how long it takes can only be said to who works alone.
    const seconds = this.times.length >= 3 && this.mine === this.done ? median(this.times) * left * (page.questions?.length ?? 1) : 0;
    const time = seconds && left ? ` · ${about(seconds)}` : "";
    this.pace.textContent = `${planned(this.done, this.wanted, this.noun, this.mine)}${time}`;
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
    const long = page.breakMinutes && minutes >= page.breakMinutes;
    const many = page.breakAnswers && this.run >= page.breakAnswers;
    if (!(long || many) || this.reminded === this.since) return;
    this.reminded = this.since;
    note.hidden = false;
    const text = `${long ? `${Math.round(minutes)} minutes` : count(this.run, this.noun)} without a break. A short break keeps your eye sharp.`;
    note.firstElementChild.textContent = text;
    announce(`${text} Escape goes on.`);
  }

  /** After a break, or without one: the count begins anew. */
  back() {
    const note = one("#break");
    if (note.hidden) return;
    note.hidden = true;
    this.since = Date.now();
    this.run = 0;
  }
}
