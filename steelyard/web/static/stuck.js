// “Needs you”: what is waiting, and what the server refused – each with its reason, to be sent again or discarded by
// the person who gave it. Nothing here goes away by itself.

import { pixels } from "./api.js";
import { ago, number } from "./format.js";
import { element, one, page } from "./page.js";

/** What was said, in the words of its question. */
function spoken({ answer, question = "" }) {
  const { chosen } = page.questions?.find((one) => one.key === question)?.words ?? page.words;
  return answer === "left" || answer === "right" ? `the ${answer} one ${chosen}` : answer;
}
const SURE = 5000; // milliseconds to say “yes”

export class Stuck {
  /**
   * @param {import("./queue.js").Queue} queue
   * @param {string} noun what is answered here, "answer", "grade" or "decision"
   */
  constructor(queue, noun) {
    this.queue = queue;
    this.noun = noun;
    this.dialog = one("#stuck");
    one("#stuck-retry").addEventListener("click", () => { queue.retry(); this.dialog.close(); });
    one("#stuck-all-again").addEventListener("click", () => queue.sendAgain(...queue.refused()));
    askTwice(one("#stuck-all-discard"), (records) => queue.discard(...records), () => queue.refused());
    queue.addEventListener("state", () => { if (this.dialog.open) this.draw(); });
  }

  open() {
    this.draw();
    this.dialog.showModal();
  }

  draw() {
    const { queue } = this;
    const waiting = queue.keys().length;
    const refused = queue.refused();
    if (!waiting && !refused.length && this.dialog.open && !queue.memory.size) { this.dialog.close(); return; }
    const signIn = queue.problem?.status === 401;
    const parts = [];
    if (queue.memory.size) {
      parts.push("This browser keeps nothing (private window or full disk). Leave the page open until the dot says “saved”.");
    } else if (waiting) {
      parts.push(`${many(waiting, this.noun)} kept in this browser and will be sent; nothing is lost.`);
    }
    if (signIn) parts.push(queue.problem.title === "Somebody else" ? queue.problem.message : "You were signed out. Sign in again to send them.");
    else if (queue.state === "stuck" && queue.problem) parts.push(queue.problem.message);
    else if (queue.state === "waiting") parts.push("The server cannot be reached; the page keeps trying. You can go on.");
    if (refused.length) {
      const single = refused.length === 1;
      parts.push(`The server did not take ${single ? "this one" : "these"}. Nothing is lost: ${single ? "it is" : "they are"} kept in this browser until you decide.`);
    }
    one("#stuck-title").textContent = refused.length ? `${number(refused.length)} ${this.noun}${refused.length === 1 ? " needs" : "s need"} you` : "Not everything has arrived";
    one("#stuck-text").replaceChildren(...parts.map((text) => element("p", {}, text)));
    // The buttons of a row that is about to be decided must not be drawn anew under the pointer.
    const shown = JSON.stringify(refused);
    if (shown !== this.shown) one("#stuck-list").replaceChildren(...refused.map((record) => this.row(record)));
    this.shown = shown;
    one("#stuck-list").hidden = !refused.length;
    one("#stuck-all").hidden = refused.length < 2;
    one("#stuck-sign-in").hidden = !signIn;
    one("#stuck-retry").hidden = !waiting;
    one("#stuck-next").hidden = !signIn && !waiting;
  }

  row(record) {
    const { queue } = this;
    const discard = element("button", { type: "button", class: "plain" }, "Discard");
    askTwice(discard, () => queue.discard(record));
    return element("li", { class: "refused" },
      pictures(record.event),
      element("div", { class: "refused-text" },
        element("p", {}, element("strong", {}, what(record)), when(record)),
        element("p", { class: "quiet" }, sentence(record.reason))),
      element("div", { class: "refused-do" },
        record.event ? element("button", { type: "button", onclick: () => queue.sendAgain(record) }, "Send again") : null,
        discard));
  }
}

/** A button that has to be pressed twice: what it does cannot be undone. It is about what there was at the first press. */
function askTwice(button, run, about = () => null) {
  const asks = button.textContent;
  let timer = 0;
  let meant = null;
  const rest = () => { clearTimeout(timer); timer = 0; button.textContent = asks; button.classList.remove("sure"); };
  button.addEventListener("click", () => {
    if (timer) { rest(); run(meant); return; }
    meant = about();
    button.textContent = "Yes, discard";
    button.classList.add("sure");
    timer = setTimeout(rest, SURE);
  });
}

const sentence = (text = "") => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
const many = (n, noun) => `${number(n)} ${noun}${n === 1 ? " is" : "s are"}`;

/** What was answered, in the words of the page. */
function what({ event, followed }) {
  const gone = followed.length ? ", then undone" : "";
  if (event?.kind === "comparison") return `You said: ${spoken(event.body ?? {})}${gone}`;
  if (event?.kind === "decision") return `You decided: ${spoken(event.body ?? {})}${gone}`;
  if (event?.kind === "grade") return `You graded: ${page.grades?.[event.body?.grade]?.name ?? event.body?.grade}${gone}`;
  if (event?.kind?.startsWith("undo")) return "You took an answer back";
  return event ? "Something from another version" : "An entry that cannot be read";
}

function when({ event, at }) {
  const time = event?.body?.answered_at ?? at;
  return time ? ` · ${ago(time)}` : "";
}

/** The pictures it was about; one that cannot be shown any more leaves its place empty. */
function pictures(event) {
  const ids = [event?.body?.left, event?.body?.right, event?.body?.image].filter((id) => typeof id === "string");
  return element("div", { class: "refused-pictures" },
    ...ids.map((id) => element("img", { src: pixels(id, "thumb"), alt: "", onerror: (e) => e.target.remove() })));
}
