// The compare page: a key press answers at once, the next pair is already there, the server hears of it afterwards.

import { call, pixels } from "./api.js";
import { lineChart } from "./charts.js";
import { Coach, showSession, whenAgain } from "./coach.js";
import { Desk } from "./desk.js";
import { Feed, Item } from "./feed.js";
import { percent } from "./format.js";
import { Help } from "./help.js";
import { Keys, label, releaseClicks } from "./keys.js";
import { toggleTheme } from "./menu.js";
import { showNote } from "./note.js";
import { all, announce, at, element, memory, one, page } from "./page.js";
import { Questions } from "./questions.js";
import { flash, place, spoken as spokenIn, swipes } from "./sides.js";
import { uuid } from "./uuid.js";
import { touches, Viewer, viewKeys } from "./viewer.js";

const UNDO = 50;
const { reasons, words } = page;
const TURN = 250; // ms after a question has changed in which it cannot be answered: the key was meant for the one before

const desk = new Desk("answer");
const frames = all(".frame");
const viewer = new Viewer(frames);
const questions = new Questions();
const kept = `given.${page.study}.${page.annotator}`;
const history = memory.get(kept, []); // what can be taken back, oldest first
memory.drop(`undo.${page.study}.${page.annotator}`); // written by 0.1, with names of images that are not used any more
let current = null; // { item, shown, was }; which question about it is asked is in `questions`
let asking = false; // "why can't you judge?"
let gone = new Set(); // pairs the server asks no more: an image of theirs was taken out, here or by somebody else
const skipped = new Set(); // pairs whose pictures could not be loaded
const LOOK = 700; // ms in which a pair that came up by itself cannot be answered: the key was meant for the one before
let pause = 0; // such a time, for the pair that comes next
let more = true; // whether there may be pairs beyond the plan
let againAt = null; // when there may be pairs again, after a limit

/** Whether this person goes on though the planned answers are in: said on this tab, and true for as long as it is open. */
const BEYOND = `steelyard.beyond.${page.study}.${page.annotator}`;
const beyond = () => { try { return sessionStorage.getItem(BEYOND) === "yes"; } catch { return goesOn; } };
let goesOn = false;

const spoken = (value) => spokenIn(value, questions.words);

/** Pairs that were answered here and images that were taken out here, of which the server has not heard yet. */
function unheard() {
  const pairs = new Set();
  const images = new Map(); // by answer
  for (const event of desk.queue.pending()) {
    if (event.kind === "comparison") {
      if (!event.body.question) pairs.add(event.body.pair); // whether a pair is done depends on the main question
      images.set(event.body.id, event.body.exclude ?? []);
    } else if (event.kind === "undo") {
      if (!event.question) pairs.delete(event.pair);
      images.delete(event.of);
    }
  }
  return { pairs, images: new Set([...images.values()].flat()) };
}

/** Whether a pair still has to be shown. */
function wanted({ record: { id, left, right } }) {
  if (id === current?.item.record.id || recent.has(id) || gone.has(id) || skipped.has(id)) return false;
  const { pairs, images } = unheard();
  return !pairs.has(id) && !images.has(left) && !images.has(right);
}

/** The server says with every reply what is asked no more; if that is in sight, the next pair comes up. */
function learn(reply) {
  desk.worded(reply);
  if (!reply?.gone) return;
  gone = new Set(reply.gone);
  if (!current || !gone.has(current.item.record.id)) return;
  askWhy(false);
  pause = LOOK;
  next();
  const text = "An image of the pair that was here has been taken out of the study; this is another pair.";
  if (current) desk.note(frames[0], element("p", {}, text));
  announce(text);
}

const feed = new Feed(
  async (count) => {
    const asked = desk.moment();
    const reply = await call("POST", "/pairs/lease", { body: { count: Math.min(50, count + skipped.size), beyond: beyond() }, once: true });
    desk.settle({ done: reply.answered, mine: reply.mine, wanted: reply.wanted }, asked);
    more = reply.more;
    againAt = reply.again_at;
    coach.take(reply);
    showNote(reply.note);
    // What the server holds back, too, comes again when its files are there.
    for (const id of skipped) if (!reply.pairs.some((pair) => pair.id === id)) skipped.delete(id);
    learn(reply);
    const items = reply.pairs.map((pair) => new Item({ ...pair, warm: Boolean(reply.warmup) }, [pair.left, pair.right]));
    return { items, state: reply.state };
  },
  wanted,
  page.ahead ?? 6,
);
const recent = new Set(); // answered on this page: a lease reply that crossed the answer must not bring them back

const coach = new Coach({ frames, spoken, next, renew: async () => { current = null; await feed.renew(); if (!current) next(); } });

function show(item, was = null, at = 0) {
  coach.release();
  current = { item, was, shown: null };
  questions.ask(at);
  questions.keep(item.record);
  const painted = desk.present(viewer, item, feed.next);
  showWas(was);
  const looked = pause ? new Promise((resolve) => { setTimeout(resolve, pause); }) : null;
  pause = 0;
  Promise.all([painted, looked]).then(
    () => { if (current?.item === item) { current.shown = Date.now() / 1000; viewer.busy = false; mark(); } },
    () => { if (current?.item === item) unreadable(item); },
  );
}

/** Mark what was said before, which an undo took back. */
function showWas(was) {
  for (const side of ["left", "right", "equal"]) {
    one(`[data-answer="${side}"]`).classList.toggle("was", was === side);
  }
  frames.forEach((frame, index) => frame.classList.toggle("was", was === ["left", "right"][index]));
}

/** Ask another question about the pair that is in sight. */
function turn(at, was = null) {
  const asked = { item: current.item, was, shown: null };
  current = asked;
  questions.ask(at);
  questions.keep(current.item.record);
  showWas(was);
  const since = Date.now() / 1000;
  viewer.busy = true;
  setTimeout(() => { if (current === asked) { current.shown = since; viewer.busy = false; mark(); } }, TURN);
}

/** For measurements: when the pair that is now visible was painted. */
function mark() {
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("pair painted", { detail: current?.item.record.id })));
}

function unreadable(item) {
  current.lost = true;
  desk.missing(viewer, item, skip, (found) => { if (current?.item === item) show(found, current.was); });
}

/** Go on without an answer: nobody is asked about a picture they do not see. */
function skip() {
  skipped.add(current.item.record.id);
  next();
}

function next() {
  const item = feed.take();
  if (item) show(item);
  else { current = null; questions.keep(null); desk.forget(); idle(); }
}

function answer(value, extra = {}) {
  if (coach.holds) { coach.go(); return; }
  if (!current || current.shown === null || !current.item.seen) return;
  const { record } = current.item;
  const now = Date.now() / 1000;
  const body = {
    id: uuid(), pair: record.id, left: record.left, right: record.right, answer: value,
    shown_at: current.shown, answered_at: now, ...(questions.key ? { question: questions.key } : {}), ...extra,
  };
  const said = spoken(value);
  desk.queue.add({ kind: "comparison", body });
  if (!questions.key) recent.add(record.id);
  history.push({ id: body.id, answer: value, record, question: questions.key });
  keepHistory();
  flash(frames, value);
  help.over();
  if (record.warm) { coach.hold(body.id, value); return; } // a reference is about the main question
  desk.counted(now - current.shown, !questions.key);
  coach.counted();
  // Nobody is asked more about an image that they have just taken out.
  const following = extra.exclude?.length ? -1 : questions.after(questions.at, record);
  if (following >= 0) { turn(following); announce(`${said}. ${questions.text}`); return; }
  next();
  if (current) announce(`${said}. Next pair.${questions.several ? ` ${questions.text}` : ""}`);
}

function undo() {
  if (asking) { askWhy(false); return; }
  const last = history.pop();
  if (!last) { announce("Nothing to undo."); return; }
  keepHistory();
  const further = last.question ?? "";
  desk.queue.add({ kind: "undo", of: last.id, id: uuid(), pair: last.record.id, ...(further ? { question: further } : {}) });
  if (last.record.warm) coach.release({ undone: true });
  else desk.uncounted(!further);
  if (!further) recent.delete(last.record.id);
  const at = questions.place(further);
  if (current?.item.record.id === last.record.id) turn(at, last.answer);
  else {
    if (current) feed.putBack(current.item);
    show(new Item(last.record, [last.record.left, last.record.right]), last.answer, at);
  }
  announce(`Undone. You had said: ${spoken(last.answer)}.${questions.several ? ` ${questions.text}` : ""}`);
}

function keepHistory() {
  history.splice(0, Math.max(0, history.length - UNDO));
  memory.set(kept, history);
}

// ---- cannot judge: one more key says why

const whyKeys = [
  ...reasons.map((reason, index) => ({ keys: () => [String(index + 1)], text: reason, run: () => cannot(reason) })),
  { keys: () => [" ", "enter", keys.map.cannot], text: "no reason", run: () => cannot("") },
  { keys: () => ["l"], get text() { return `exclude the ${place("left")} image`; }, run: () => tick("left") },
  { keys: () => ["r"], get text() { return `exclude the ${place("right")} image`; }, run: () => tick("right") },
  { keys: () => ["escape", keys.map.undo], text: "back to the pair", run: () => askWhy(false) },
];

function askWhy(open) {
  if (open && coach.holds) { coach.go(); return; }
  if (open && current?.lost) { skip(); return; }
  if (open && !current?.shown) return;
  asking = open;
  one("#why").hidden = !open;
  for (const box of all("#why input")) box.checked = false;
  keys.mode = open ? "why" : null;
  if (open) announce(`Why? ${whyKeys.map((action) => `${label(action.keys()[0])}: ${action.text}`).join(", ")}.`);
}

function tick(side) {
  const box = one(`#why input[value=${side}]`);
  box.checked = !box.checked;
  announce(`The ${place(side)} image ${box.checked ? "will be" : "will not be"} excluded.`);
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
    missing: ["The pictures cannot be found", desk.lacking],
    skipped: ["The remaining pictures could not be loaded", "Nothing was recorded about them. Reload the page to try again, or tell whoever runs the study."],
    unreachable: ["The server cannot be reached", "Your answers are kept in this browser; nothing is lost. New pairs appear when it is back."],
    limit: againAt
      ? ["Enough for today. Thank you!", `You have given as many answers as this study takes from one person a day; all of them are saved. You can go on ${whenAgain(againAt)}.`]
      : ["That was all. Thank you!", "You have given as many answers as this study takes from one person; all of them are saved."],
    consent: ["One moment", "The instructions were changed; please read them first."],
    done: ["Done. Thank you!", more ? "The planned answers are in." : "Every pair that can be asked has been answered."],
  };
  const state = feed.problem?.status === 401 ? "unreachable" : feed.state === "open" && skipped.size ? "skipped" : feed.state;
  const [title, text] = texts[state] ?? texts.choosing;
  one("#finished-title").textContent = title;
  one("#finished-text").textContent = text;
  one("#finished-next").hidden = state !== "done";
  one("#finished-picture").hidden = state !== "done";
  one("#go-on").hidden = state !== "done" || !more;
  if (state === "consent") { location.assign(at("/instructions?next=/compare")); return; }
  one("#finished-session").hidden = true;
  if (state === "done" || state === "limit") showSession(one("#finished-session"));
  if (state !== "done" || finished.dataset.told) return;
  finished.dataset.told = "yes";
  announce("Done. Thank you!");
  try {
    const reached = await call("GET", "/achieved");
    one("#finished-text").textContent = more ? reached.sentence : `${text} ${reached.sentence}`;
    one("#finished-next").textContent = reached.next;
    const picture = one("#finished-picture");
    if (reached.ladder.length) {
      picture.append(
        element("div", { class: "ladder" }, ...reached.ladder.map((id) => element("img", { src: pixels(id, "thumb"), alt: "" }))),
        element("div", { class: "ladder-ends" }, element("span", {}, words.least), element("span", {}, words.most)),
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

const keys = new Keys({
  left: { key: "ArrowLeft", get text() { return spoken("left"); }, run: () => answer("left") },
  right: { key: "ArrowRight", get text() { return spoken("right"); }, run: () => answer("right") },
  equal: { key: "ArrowDown", text: "equal", run: () => answer("equal") },
  cannot: { key: " ", text: "can’t judge", run: () => askWhy(true) },
  undo: { key: "z", text: "undo", run: undo },
  ...viewKeys(viewer),
  reset: { key: "0", text: "reset the view", run: () => { viewer.reset(); announce("View reset."); } },
  theme: { key: "t", text: "dark or light", run: toggleTheme },
  help: { key: "?", text: "this help", run: () => help.open() },
  close: { key: "Escape", text: "close what is open", fixed: true, run: () => help.over() },
}, "compare", { why: { title: "After “can’t judge”", actions: whyKeys } });

const help = new Help(keys, () => [
  ...Object.entries(swipes()).map(([way, side]) => [`swipe ${way}`, spoken(side)]),
  ...touches,
  ["buttons", "equal, can’t judge, undo"],
], ["left", "right", "equal", "cannot", "undo"]);

for (const button of all("[data-answer]")) {
  button.addEventListener("click", () => (button.dataset.answer === "cannot judge" ? askWhy(!asking) : answer(button.dataset.answer)));
}
for (const button of all("[data-reason]")) button.addEventListener("click", () => cannot(button.dataset.reason));
one("#undo").addEventListener("click", undo);
one("#go-on").addEventListener("click", () => {
  goesOn = true;
  delete one("#finished").dataset.told;
  one("#finished-picture").replaceChildren();
  try { sessionStorage.setItem(BEYOND, "yes"); } catch { /* until the page is left */ }
  feed.state = "choosing";
  idle();
  feed.fill();
});
releaseClicks();


desk.watchPair(viewer, answer, () => {
  for (const side of ["left", "right"]) one(`#why input[value="${side}"] ~ span`).textContent = `exclude ${place(side)}`;
});

// After a long absence what is held may have gone to a colleague: ask anew before going on.
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || !feed.stale(page.leaseSeconds * 0.8)) return;
  if (current && !current.was && !questions.at) { current = null; }
  await feed.renew();
  if (!current) next();
});

feed.addEventListener("filled", () => {
  if (!current) {
    if (feed.next) next();
    else idle();
  } else if (current.item.nodes.length) {
    viewer.show(current.item.nodes, feed.next?.nodes ?? []);
  }
});
desk.queue.addEventListener("sent", ({ detail }) => {
  coach.heard(detail.result);
  learn(detail.result);
  if (detail.result?.answered !== undefined) desk.settle({ done: detail.result.answered, wanted: detail.result.wanted });
});

const half = questions.half();
if (half) { recent.add(half.record.id); show(new Item(half.record, [half.record.left, half.record.right]), null, half.at); }
feed.fill();
