// The compare page: a key press answers at once, the next pair is already there, the server hears of it afterwards.

import { call, pixels } from "./api.js";
import { lineChart } from "./charts.js";
import { Desk } from "./desk.js";
import { Feed, Item } from "./feed.js";
import { percent } from "./format.js";
import { Keys, releaseClicks } from "./keys.js";
import { toggleTheme } from "./menu.js";
import { all, announce, element, memory, one, page } from "./page.js";
import { uuid } from "./uuid.js";
import { Viewer, viewKeys } from "./viewer.js";

const UNDO = 50;
const REASONS = ["blurred", "stool", "wrong organ", "duplicate", "other"];
const SPOKEN = { left: "left is more severe", right: "right is more severe", equal: "equal", "cannot judge": "cannot judge" };

const desk = new Desk("answer");
const frames = all(".frame");
const viewer = new Viewer(frames);
const kept = `given.${page.study}.${page.annotator}`;
const history = memory.get(kept, []); // what can be taken back, oldest first
memory.drop(`undo.${page.study}.${page.annotator}`); // written by 0.1, with names of images that are not used any more
let current = null; // { item, shown, was }
let asking = false; // "why can't you judge?"

/** Pairs that were answered here, whether or not the server has heard of it. */
function answeredHere() {
  const pairs = new Set();
  for (const event of desk.queue.pending()) {
    if (event.kind === "comparison") pairs.add(event.body.pair);
    if (event.kind === "undo") pairs.delete(event.pair);
  }
  return pairs;
}

const feed = new Feed(
  async (count) => {
    const asked = desk.moment();
    const reply = await call("POST", "/pairs/lease", { body: { count }, once: true });
    desk.settle(reply.answered, reply.wanted, asked);
    const items = reply.pairs.map((pair) => new Item(pair, [pair.left, pair.right]));
    return { items, state: reply.state };
  },
  (item) => item.record.id !== current?.item.record.id && !answeredHere().has(item.record.id) && !recent.has(item.record.id),
  page.ahead ?? 6,
);
const recent = new Set(); // answered on this page: a lease reply that crossed the answer must not bring them back

function show(item, was = null) {
  current = { item, was, shown: null };
  desk.present(viewer, item, feed.items[0]);
  for (const side of ["left", "right", "equal"]) {
    one(`[data-answer="${side}"]`).classList.toggle("was", was === side);
  }
  frames.forEach((frame, index) => frame.classList.toggle("was", was === ["left", "right"][index]));
  item.decoded().then(
    () => { if (current?.item === item) { current.shown = Date.now() / 1000; viewer.busy = false; mark(); } },
    () => { if (current?.item === item) unreadable(item); },
  );
}

/** For measurements: when the pair that is now visible was painted. */
function mark() {
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("pair painted", { detail: current?.item.record.id })));
}

function unreadable(item) {
  current.shown = Date.now() / 1000;
  viewer.busy = false;
  announce("A picture could not be loaded.");
  item.nodes.forEach((node, index) => {
    if (node.naturalWidth) return;
    frames[index].append(element("p", { class: "frame-note" }, "This picture could not be loaded. Press the key for “can’t judge”, or reload."));
  });
}

function next() {
  for (const note of all(".frame-note")) note.remove();
  const item = feed.take();
  if (item) show(item);
  else { current = null; idle(); }
}

function answer(value, extra = {}) {
  if (!current || current.shown === null) return;
  const { record } = current.item;
  const now = Date.now() / 1000;
  const body = {
    id: uuid(), pair: record.id, left: record.left, right: record.right, answer: value,
    shown_at: current.shown, answered_at: now, ...extra,
  };
  desk.queue.add({ kind: "comparison", body });
  recent.add(record.id);
  history.push({ id: body.id, answer: value, record });
  keepHistory();
  desk.counted(now - current.shown);
  flash(value);
  firstVisitOver();
  next();
  if (current) announce(`${SPOKEN[value]}. Next pair.`);
}

function flash(value) {
  const lit = value === "left" ? [frames[0]] : value === "right" ? [frames[1]] : value === "equal" ? frames : [];
  for (const frame of lit) {
    frame.classList.add("chosen");
    setTimeout(() => frame.classList.remove("chosen"), 100);
  }
}

function undo() {
  if (asking) { askWhy(false); return; }
  const last = history.pop();
  if (!last) { announce("Nothing to undo."); return; }
  keepHistory();
  desk.queue.add({ kind: "undo", of: last.id, id: uuid(), pair: last.record.id });
  desk.uncounted();
  recent.delete(last.record.id);
  if (current) feed.putBack(current.item);
  show(new Item(last.record, [last.record.left, last.record.right]), last.answer);
  announce(`Undone. You had said: ${SPOKEN[last.answer]}.`);
}

function keepHistory() {
  history.splice(0, Math.max(0, history.length - UNDO));
  memory.set(kept, history);
}

// ---- cannot judge: one more key says why

function askWhy(open) {
  if (open && !current) return;
  asking = open;
  one("#why").hidden = !open;
  for (const box of all("#why input")) box.checked = false;
  keys.taken = open ? whyKey : null;
  if (open) announce("Why? 1 blurred, 2 stool, 3 wrong organ, 4 duplicate, 5 other, Space for no reason. L or R also excludes an image.");
}

function whyKey(key) {
  if (key === "escape" || key === keys.map.undo) askWhy(false);
  else if (key === " " || key === "enter" || key === keys.map.cannot) cannot("");
  else if (REASONS[Number(key) - 1]) cannot(REASONS[Number(key) - 1]);
  else if (key === "l" || key === "r") {
    const box = one(`#why input[value=${key === "l" ? "left" : "right"}]`);
    box.checked = !box.checked;
    announce(`${key === "l" ? "Left" : "Right"} image ${box.checked ? "will be" : "will not be"} excluded.`);
  }
  return true;
}

function cannot(note) {
  const exclude = all("#why input:checked").map((box) => current.item.record[box.value]);
  askWhy(false);
  answer("cannot judge", { note, exclude });
}

// ---- nothing to show

async function idle() {
  viewer.show([], []);
  const finished = one("#finished");
  one("#working").hidden = true;
  finished.hidden = false;
  const texts = {
    filling: ["One moment", "The first pairs are on their way."],
    choosing: ["One moment", "The next pairs are being chosen; they appear here in a moment."],
    elsewhere: ["Nothing for you right now", "The remaining pairs are with other annotators. New pairs appear here as they come."],
    unreachable: ["The server cannot be reached", "Your answers are kept in this browser; nothing is lost. New pairs appear when it is back."],
    done: ["Done. Thank you!", "Every pair has been answered."],
  };
  const state = feed.problem?.status === 401 ? "unreachable" : feed.state;
  const [title, text] = texts[state] ?? texts.choosing;
  one("#finished-title").textContent = title;
  one("#finished-text").textContent = text;
  one("#finished-next").hidden = state !== "done";
  one("#finished-picture").hidden = state !== "done";
  if (state !== "done" || finished.dataset.told) return;
  finished.dataset.told = "yes";
  announce("Done. Thank you!");
  try {
    const reached = await call("GET", "/achieved");
    one("#finished-text").textContent = reached.sentence;
    one("#finished-next").textContent = reached.next;
    const picture = one("#finished-picture");
    if (reached.ladder.length) {
      picture.append(
        element("div", { class: "ladder" }, ...reached.ladder.map((id) => element("img", { src: pixels(id, "thumb"), alt: "" }))),
        element("div", { class: "ladder-ends" }, element("span", {}, "least severe"), element("span", {}, "most severe")),
      );
    } else if (reached.accuracy.length > 1) {
      picture.append(lineChart({
        title: "Estimated accuracy", x: "answers", y: "correct pairs", formatY: percent, low: 0.5, high: 1,
        series: [{ name: "estimate", points: reached.accuracy.map((row) => [row.answers, row.estimate]), band: reached.accuracy.map((row) => [row.answers, row.low, row.high]) }],
      }));
    }
  } catch { /* the sentence above stands */ }
}

// ---- keys, buttons, swipes

function firstVisitOver() {
  one("#overlay").hidden = true;
  memory.set("seen.compare", true);
}

function help() {
  const overlay = one("#overlay");
  overlay.hidden = !overlay.hidden;
}

const keys = new Keys({
  left: { key: "ArrowLeft", text: "left is more severe", run: () => answer("left") },
  right: { key: "ArrowRight", text: "right is more severe", run: () => answer("right") },
  equal: { key: "ArrowDown", text: "equal", run: () => answer("equal") },
  cannot: { key: " ", text: "can’t judge", run: () => askWhy(true) },
  undo: { key: "z", text: "undo", run: undo },
  ...viewKeys(viewer),
  reset: { key: "0", text: "reset the view", run: () => { viewer.reset(); announce("View reset."); } },
  theme: { key: "t", text: "dark or light", run: toggleTheme },
  help: { key: "?", text: "show the keys", run: help },
}, "compare");

for (const button of all("[data-answer]")) {
  button.addEventListener("click", () => (button.dataset.answer === "cannot judge" ? askWhy(!asking) : answer(button.dataset.answer)));
}
for (const button of all("[data-reason]")) button.addEventListener("click", () => cannot(button.dataset.reason));
one("#undo").addEventListener("click", undo);
one("#help").addEventListener("click", help);
one("#reset").addEventListener("click", () => viewer.reset());
one("#keys-restore").addEventListener("click", () => { keys.restore(); keys.list(one("#keys-body")); });
one("#keys").addEventListener("toggle", () => keys.list(one("#keys-body")));
for (const button of all("[data-opens=keys]")) button.addEventListener("click", () => keys.list(one("#keys-body")));
releaseClicks();

viewer.addEventListener("change", () => {
  const changed = viewer.zoom !== 1 || viewer.brightness !== 1 || viewer.contrast !== 1;
  one("#reset").hidden = !changed;
  one("#look").textContent = changed ? `${viewer.zoom.toFixed(1)}× · brightness ${percent(viewer.brightness)} · contrast ${percent(viewer.contrast)}` : "";
});
viewer.addEventListener("swipe", ({ detail }) => {
  const stacked = frames[1].offsetTop > frames[0].offsetTop;
  const side = stacked ? { up: "left", down: "right" }[detail] : { left: "left", right: "right" }[detail];
  if (side) answer(side);
});

/** Say "top" and "bottom" where the pictures are stacked. */
function nameSides() {
  const stacked = frames[1].offsetTop > frames[0].offsetTop;
  one('[data-answer="left"] span').textContent = stacked ? "top one" : "this one";
  one('[data-answer="right"] span').textContent = stacked ? "bottom one" : "this one";
  one('#why input[value="left"] ~ span').textContent = stacked ? "exclude top" : "exclude left";
  one('#why input[value="right"] ~ span').textContent = stacked ? "exclude bottom" : "exclude right";
}
new ResizeObserver(nameSides).observe(one(".frames"));

// After a long absence what is held may have gone to a colleague: ask anew before going on.
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || !feed.stale(page.leaseSeconds * 0.8)) return;
  if (current && !current.was) { current = null; }
  await feed.renew();
  if (!current) next();
});

feed.addEventListener("filled", () => {
  if (!current) {
    if (feed.items.length) next();
    else idle();
  } else if (current.item.nodes.length) {
    viewer.show(current.item.nodes, feed.items[0]?.nodes ?? []);
  }
});
desk.queue.addEventListener("sent", ({ detail }) => {
  if (detail.result?.answered !== undefined) desk.settle(detail.result.answered, detail.result.wanted);
});

one("#overlay").hidden = Boolean(memory.get("seen.compare", false));
feed.fill();
