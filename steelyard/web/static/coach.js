// Warming up: after each answer the page says what is known about the pair, and the next key goes on. And what a session
// did to somebody's answers, in words, for its end.

import { call } from "./api.js";
import { announce, element, one } from "./page.js";

const PATIENCE = 1500; // ms until a key goes on although the server has not said anything

export class Coach {
  /**
   * @param {{frames: Element[], spoken: (answer: string) => string, next: () => void, renew: () => void}} page what it works with
   */
  constructor({ frames, spoken, next, renew }) {
    this.frames = frames;
    this.spoken = spoken;
    this.next = next;
    this.head = one("#warmup");
    this.box = one("#coach");
    this.done = 0;
    this.waiting = null; // { id, said }: a pair of the warm-up that was answered and is still in sight
    one("button", this.box).addEventListener("click", () => this.go());
    one("button", this.head).addEventListener("click", async () => {
      try { await call("POST", "/warmup/skip"); } catch (problem) { announce(problem.message); return; }
      await renew(); // the reply says that it is over
    });
    addEventListener("keydown", (event) => { if (event.key === "Enter" && this.holds && !event.target.closest("button, a")) this.go(); });
  }

  /** Whether the next key goes on instead of answering. */
  get holds() { return this.waiting !== null; }

  /** The server says with every batch of pairs whether they are for warming up. */
  take({ warmup }) {
    if (!warmup) { if (!this.head.hidden) this.over(); return; }
    this.of = warmup.of;
    this.done = Math.max(this.done, warmup.done);
    if (this.head.hidden) announce(`Warm-up: ${this.of} pairs with a reference answer. You hear it after each; none of them counts.`);
    this.head.hidden = false;
    one("button", this.head).hidden = !warmup.skippable;
    this.show();
  }

  show() {
    const place = Math.min(this.done + (this.holds ? 0 : 1), this.of);
    one("span", this.head).textContent = `Warm-up, pair ${Math.max(1, place)} of ${this.of}: you hear the reference afterwards, and it does not count.`;
  }

  over() {
    if (this.ended) return;
    this.ended = true;
    one("span", this.head).textContent = "The warm-up is over: from here on every answer counts.";
    one("button", this.head).hidden = true;
    announce("The warm-up is over. From here on every answer counts.");
  }

  /** An answer that counts was given. */
  counted() { if (this.ended) this.head.hidden = true; }

  /** A pair of the warm-up was answered: it stays until the person goes on. */
  hold(id, said) {
    this.done += 1;
    this.waiting = { id, said };
    this.patience = setTimeout(() => this.say("Waiting for the server, which has the reference …"), PATIENCE);
  }

  /** What became of an answer; only the one in sight is of interest. */
  heard(result) {
    if (!this.holds || String(result?.id).toLowerCase() !== this.waiting.id.toLowerCase()) return;
    const { feedback } = result;
    if (!feedback) { this.go(); return; }
    const { said } = this.waiting;
    const words = { equal: "they are equal", "cannot judge": "you can’t judge" };
    const [known, yours] = [feedback.expected, said].map((answer) => words[answer] ?? this.spoken(answer));
    this.say(feedback.right ? `The reference says so too: ${known}.` : `The reference says ${known}; you said ${yours}.`);
    this.box.classList.toggle("right", feedback.right);
    const marked = { left: [0], right: [1], equal: [0, 1] }[feedback.expected];
    for (const index of marked) this.frames[index].classList.add("reference");
  }

  say(text) {
    clearTimeout(this.patience);
    this.told = true;
    one("span", this.box).textContent = text;
    this.box.hidden = false;
    announce(`${text} Any answer key goes on.`);
  }

  /** On to the next pair; nothing happens before something was said. */
  go() {
    if (!this.told) return;
    this.release();
    this.next();
  }

  /** Another pair comes into sight, or this one is taken back. */
  release({ undone = false } = {}) {
    clearTimeout(this.patience);
    if (undone) this.done = Math.max(0, this.done - 1);
    this.waiting = null;
    this.told = false;
    this.box.hidden = true;
    this.box.classList.remove("right");
    for (const frame of this.frames) frame.classList.remove("reference");
    if (!this.head.hidden && !this.ended) this.show();
  }
}

/** Somebody's last session in sentences, or nothing where there is nothing to say yet. */
export async function sessionInWords() {
  const found = await call("GET", "/session/figures");
  if (!found.answers) return [];
  const minutes = Math.max(1, Math.round(found.minutes));
  return [
    `Your last session: ${found.answers} ${found.answers === 1 ? "answer" : "answers"} in ${minutes} ${minutes === 1 ? "minute" : "minutes"}.`,
    ...[found.seconds, found.repeats, found.gold].filter(Boolean).map((over) => over.sentence),
  ];
}

/** The same into a node, which stays hidden where there is nothing. */
export async function showSession(node) {
  try {
    const sentences = await sessionInWords();
    node.replaceChildren(...sentences.map((text) => element("p", {}, text)));
    node.hidden = !sentences.length;
  } catch { node.hidden = true; }
}

/** When somebody may go on, as people say it. */
export function whenAgain(time) {
  const at = new Date(time * 1000);
  const clock = at.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });
  const tomorrow = new Date(Date.now() + 86400000);
  const day = at.toDateString() === new Date().toDateString() ? "today" : at.toDateString() === tomorrow.toDateString() ? "tomorrow" : at.toLocaleDateString("en", { weekday: "long" });
  return `${day} from ${clock}`;
}
