// The adjudicate page: two pictures on which people disagree. How many said what stands beside the question; who they were
// and what the model thinks is shown when the decision is made, so that neither steers it.

import { call, pixels } from "./api.js";
import { Desk } from "./desk.js";
import { Feed, Item } from "./feed.js";
import { count, percent } from "./format.js";
import { Help } from "./help.js";
import { Keys, releaseClicks } from "./keys.js";
import { toggleTheme } from "./menu.js";
import { all, announce, element, memory, one, page } from "./page.js";
import { flash, place, spoken, swipes } from "./sides.js";
import { uuid } from "./uuid.js";
import { touches, Viewer, viewKeys } from "./viewer.js";

const UNDO = 50;
const AGAIN = 15000; // milliseconds until an empty page looks for new conflicts

const desk = new Desk("decision");
const frames = all(".frame");
const viewer = new Viewer(frames);
const kept = `decided.${page.study}.${page.annotator}`;
const history = memory.get(kept, []); // what can be taken back, oldest first
const recent = new Set(); // decided on this page: a reply that crossed the decision must not bring them back
const skipped = new Set(); // pairs whose pictures could not be loaded
const remark = one("#remark");
const waitingText = one("#review").textContent;
let current = null; // { item, shown, was }
let decided = 0;
let timer = 0;

/** Pairs that were decided here and of which the server has not heard yet. */
function unheard() {
  const pairs = new Set();
  for (const event of desk.queue.pending()) {
    if (event.kind === "decision") pairs.add(event.body.pair);
    else if (event.kind === "undo decision") pairs.delete(event.pair);
  }
  return pairs;
}

const feed = new Feed(
  async (wanted) => {
    const asked = desk.moment();
    const reply = await call("GET", `/conflicts?limit=${Math.min(1000, wanted + skipped.size + unheard().size)}`);
    settle(reply, asked);
    desk.worded(reply);
    const items = reply.conflicts.map((record) => new Item({ ...record, id: record.pair }, [record.left, record.right]));
    return { items, state: "done" };
  },
  ({ record: { id } }) => id !== current?.item.record.id && !recent.has(id) && !skipped.has(id) && !unheard().has(id),
  4,
);

function settle(reply, asked = desk.moment()) {
  decided = reply.decided;
  desk.settle({ done: reply.decided, mine: reply.decided, wanted: reply.decided + reply.open }, asked);
}

function show(item, was = null) {
  current = { item, was, shown: null };
  const painted = desk.present(viewer, item, feed.next);
  one("#said").textContent = counted(item.record);
  for (const side of ["left", "right", "equal"]) one(`[data-answer="${side}"]`).classList.toggle("was", was === side);
  frames.forEach((frame, index) => frame.classList.toggle("was", was === ["left", "right"][index]));
  painted.then(
    () => { if (current?.item === item) { current.shown = Date.now() / 1000; viewer.busy = false; } },
    () => { if (current?.item === item) desk.missing(viewer, item, skip, (found) => { if (current?.item === item) show(found, was); }); },
  );
}

/** What was said, as counts: "2 said left · 1 said right". */
function counted({ said, answers }) {
  if (!said) return `${count(answers, "answer")}, shown when you have decided`;
  const parts = [
    [said.left, `said ${place("left")}`], [said.right, `said ${place("right")}`], [said.equal, "said equal"], [said.cannot_judge, "could not judge"],
  ];
  return parts.filter(([n]) => n).map(([n, text]) => `${n} ${text}`).join(" · ");
}

/** Go on without a decision: nobody decides about a picture they do not see. */
function skip() {
  skipped.add(current.item.record.id);
  next();
}

function next() {
  const item = feed.take();
  if (item) show(item);
  else { current = null; desk.forget(); idle(); }
}

function decide(value) {
  if (!current || current.shown === null || !current.item.seen) return;
  const { record } = current.item;
  const now = Date.now() / 1000;
  const body = {
    id: uuid(), pair: record.id, left: record.left, right: record.right, answer: value,
    shown_at: current.shown, answered_at: now, note: remark.value.trim(),
  };
  desk.queue.add({ kind: "decision", body });
  recent.add(record.id);
  history.push({ id: body.id, answer: value, record, note: body.note });
  keepHistory();
  desk.counted(now - current.shown);
  flash(frames, value);
  remark.value = "";
  remark.blur();
  next();
  if (current) announce(`${spoken(value)}. Next pair.`);
}

function undo() {
  const last = history.pop();
  if (!last) { announce("Nothing to undo."); return; }
  keepHistory();
  desk.queue.add({ kind: "undo decision", of: last.id, id: uuid(), pair: last.record.id });
  desk.uncounted();
  recent.delete(last.record.id);
  if (current) feed.putBack(current.item);
  remark.value = last.note ?? "";
  review(null);
  show(new Item(last.record, [last.record.left, last.record.right]), last.answer);
  announce(`Undone. You had said: ${spoken(last.answer)}.`);
}

function keepHistory() {
  history.splice(0, Math.max(0, history.length - UNDO));
  memory.set(kept, history);
}

// ---- afterwards: who said what

/** One sentence for each answer: "ann and bo said left". */
function told({ said, model_left }) {
  const who = new Map();
  for (const { annotator, answer } of said) who.set(answer, [...(who.get(answer) ?? []), annotator]);
  const parts = [...who].map(([answer, names]) => {
    const list = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
    return answer === "cannot judge" ? `${list} could not judge` : `${list} said ${place(answer) ?? answer}`;
  });
  if (model_left !== null) {
    const side = model_left >= 0.5 ? "left" : "right";
    parts.push(`the model leans ${place(side)}, ${percent(Math.max(model_left, 1 - model_left)).replace(" ", "\u00a0")}`);
  }
  return `${parts.join("; ")}.`;
}

function review(event, revealed) {
  const box = one("#review");
  one("#finished-last").textContent = event ? `The last pair: ${told(revealed)}` : "";
  if (!event) { box.replaceChildren(waitingText); return; }
  const { left, right, answer } = event.body;
  const mark = (side) => (answer === side || answer === "equal" ? "it" : "");
  box.replaceChildren(
    element("img", { class: mark("left"), src: pixels(left, "thumb"), alt: "the left image of the last pair" }),
    element("img", { class: mark("right"), src: pixels(right, "thumb"), alt: "the right image of the last pair" }),
    element("span", {}, element("b", {}, `You decided: ${answer === "cannot judge" ? "cannot be judged" : place(answer) ?? answer}. `), told(revealed)),
  );
}

desk.queue.addEventListener("sent", ({ detail: { event, result } }) => {
  if (event.kind !== "decision" && event.kind !== "undo decision") return;
  settle(result);
  if (event.kind === "decision" && history.at(-1)?.id === event.body.id) review(event, result.revealed);
});

// ---- nothing to show

function idle() {
  viewer.show([], []);
  one("#said").textContent = "";
  one("#working").hidden = true;
  one("#finished").hidden = false;
  const away = feed.state === "unreachable";
  const [title, text] = away
    ? ["The server cannot be reached", "Your decisions are kept in this browser; nothing is lost. The page goes on when it is back."]
    : feed.state === "filling" ? ["One moment", "Pairs on which people disagree are being looked for."]
    : skipped.size ? ["The remaining pictures could not be loaded", "Nothing was recorded about them. Reload the page to try again, or tell whoever runs the study."]
    : decided ? ["Nothing left to decide", `${count(decided, "pair has", "pairs have")} a decision. New conflicts appear here as they come.`]
    : ["Nothing to decide", "Nobody contradicts anybody yet. A pair comes here when two people answer it differently, or when a sure model contradicts them; with raters = 2 or more in study.toml, every pair is answered by several people."];
  one("#finished-title").textContent = title;
  one("#finished-text").textContent = text;
  one("#finished-undo").hidden = !history.length;
  clearTimeout(timer);
  timer = setTimeout(() => feed.fill(), AGAIN);
}

// ---- keys, buttons, swipes

const keys = new Keys({
  left: { key: "ArrowLeft", get text() { return spoken("left"); }, run: () => decide("left") },
  right: { key: "ArrowRight", get text() { return spoken("right"); }, run: () => decide("right") },
  equal: { key: "ArrowDown", text: "equal", run: () => decide("equal") },
  cannot: { key: " ", text: "can’t be judged", run: () => decide("cannot judge") },
  undo: { key: "z", text: "undo", run: undo },
  note: { key: "m", text: "write a note", run: () => remark.focus() },
  ...viewKeys(viewer),
  reset: { key: "0", text: "reset the view", run: () => { viewer.reset(); announce("View reset."); } },
  theme: { key: "t", text: "dark or light", run: toggleTheme },
  help: { key: "?", text: "this help", run: () => help.open() },
  close: { key: "Escape", text: "close what is open", fixed: true, run: () => {} }, // the browser closes dialogs
}, "adjudicate");

const help = new Help(keys, () => [
  ...Object.entries(swipes()).map(([way, side]) => [`swipe ${way}`, spoken(side)]),
  ...touches,
  ["buttons", "equal, can’t judge, undo"],
]);

remark.addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "Escape") { event.preventDefault(); remark.blur(); }
});
for (const button of all("[data-answer]")) button.addEventListener("click", () => decide(button.dataset.answer));
one("#undo").addEventListener("click", undo);
one("#finished-undo button").addEventListener("click", undo);
releaseClicks();


desk.watchPair(viewer, decide, () => { if (current) one("#said").textContent = counted(current.item.record); });

feed.addEventListener("filled", () => {
  if (!current) {
    if (feed.next) next();
    else idle();
  } else if (current.item.nodes.length) {
    viewer.show(current.item.nodes, feed.next?.nodes ?? []);
  }
});

feed.fill();
