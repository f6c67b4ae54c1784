// The grade page: one picture, one key a grade. What the model thinks of its neighbours is shown after the answer
// only, so that it cannot steer it – and since a grade stands once they were shown, only after the next answer, so that
// the last one can always be undone.

import { call, pixels } from "./api.js";
import { Desk } from "./desk.js";
import { Feed, Item } from "./feed.js";
import { Help } from "./help.js";
import { Keys, releaseClicks } from "./keys.js";
import { toggleTheme } from "./menu.js";
import { all, announce, element, memory, one, page } from "./page.js";
import { uuid } from "./uuid.js";
import { touches, Viewer, viewKeys } from "./viewer.js";

const desk = new Desk("grade");
const viewer = new Viewer(all(".frame"));
const kept = `grades.${page.study}.${page.annotator}`;
const history = memory.get(kept, []); // what was graded here, oldest first; `stands` once its neighbours were asked for
memory.drop(`undo.grade.${page.study}.${page.annotator}`); // written by 0.1, with names of images that are not used any more
const recent = new Set();
const skipped = new Set();
let gone = new Set(); // images the server asks no more: they were taken out
const unanswered = one("#review")?.textContent ?? "";
let current = null;
let nothing = ""; // why there is nothing to grade

const feed = new Feed(
  async (count) => {
    const waiting = new Set(desk.queue.pending().filter((event) => event.kind === "grade").map((event) => event.body.image));
    const asked = desk.moment();
    const reply = await call("GET", `/grading/next?count=${count + waiting.size}`);
    desk.settle({ done: reply.given, mine: reply.graded, wanted: reply.wanted }, asked);
    nothing = reply.sentence;
    learn(reply);
    return { items: reply.images.filter((image) => !waiting.has(image.id)).map((image) => new Item(image, [image.id])), state: reply.state };
  },
  ({ record: { id } }) => id !== current?.item.record.id && !recent.has(id) && !skipped.has(id) && !gone.has(id),
  4,
);

function show(item, was = null) {
  current = { item, was, shown: null };
  const painted = desk.present(viewer, item, feed.next);
  showExamples(item.record.examples ?? []);
  for (const button of all("[data-grade]")) button.classList.toggle("was", was === Number(button.dataset.grade));
  painted.then(
    () => { if (current?.item === item) { current.shown = Date.now() / 1000; viewer.busy = false; } },
    () => { if (current?.item === item) desk.missing(viewer, item, skip, (found) => { if (current?.item === item) show(found, was); }); },
  );
}

/** Go on without a grade. */
function skip() {
  if (!current) return;
  skipped.add(current.item.record.id);
  next();
}

/** The server says with its replies what is asked no more; if that is in sight, the next image comes up. */
function learn(reply) {
  desk.worded(reply);
  if (!reply?.gone) return;
  gone = new Set(reply.gone);
  if (!current || !gone.has(current.item.record.id)) return;
  announce("This image has been taken out of the study.");
  next();
}

// ---- examples of each grade; they change only when an image of the same patient comes up

let exampled = "";

function showExamples(examples) {
  if (JSON.stringify(examples) === exampled) return;
  exampled = JSON.stringify(examples);
  const any = examples.some((ids) => ids.length);
  one("#show-examples").hidden = !any;
  for (const button of all("[data-examples]")) {
    const ids = examples[Number(button.dataset.examples)] ?? [];
    button.hidden = !any;
    button.disabled = !ids.length;
    button.replaceChildren(...(ids.length ? ids.map((id) => element("img", { src: pixels(id, "thumb"), alt: "", dataset: { example: id } })) : ["no example yet"]));
  }
}

function openExamples(grade = 0) {
  const examples = current?.item.record.examples ?? [];
  if (!examples.some((ids) => ids.length)) { announce("There are no examples yet."); return; }
  one("#examples-body").replaceChildren(...page.grades.map((g, index) => element("section", { id: `examples-${index}` },
    element("h3", {}, `${index} ${g.name}`), g.text ? element("p", { class: "quiet" }, g.text) : null,
    examples[index]?.length
      ? element("div", { class: "row" }, ...examples[index].map((id, k) => element("img", { src: pixels(id), alt: `example ${k + 1} of ${g.name}` })))
      : element("p", { class: "quiet" }, "No example yet."))));
  one("#examples").showModal();
  one(`#examples-${grade}`)?.scrollIntoView({ block: "nearest" });
}

function next() {
  const item = feed.take();
  if (item) { show(item); return; }
  current = null;
  desk.forget();
  if (skipped.size) { // a handful is handed out at a time: what was skipped comes again
    skipped.clear();
    announce("The images you skipped come up again.");
    feed.fill();
  }
  one("#working").hidden = true;
  one("#finished").hidden = false;
  const done = feed.state === "done";
  const lacking = feed.state === "missing";
  one("#finished-title").textContent = done ? "Nothing left to grade" : lacking ? "The pictures cannot be found" : "One moment";
  one("#finished-text").textContent = done ? nothing : lacking ? desk.lacking
    : "The next images are being chosen; they appear here in a moment.";
}

function grade(value) {
  if (!current || current.shown === null || !current.item.seen || value >= page.grades.length) return;
  const now = Date.now() / 1000;
  const body = { id: uuid(), image: current.item.record.id, grade: value, name: page.grades[value].name, shown_at: current.shown, answered_at: now };
  desk.queue.add({ kind: "grade", body });
  recent.add(body.image);
  history.push({ id: body.id, grade: value, record: current.item.record });
  keep();
  desk.counted(now - current.shown);
  const button = one(`[data-grade="${value}"]`);
  button.classList.add("chosen");
  setTimeout(() => button.classList.remove("chosen"), 100);
  next();
  announce(`${page.grades[value].name}. Next image.`);
}

function undo() {
  const last = history.at(-1);
  if (!last) { announce("Nothing to undo."); return; }
  if (last.stands) {
    const text = "The previous grade is final: you have seen its neighbours in the model’s order.";
    one("#review").replaceChildren(text);
    announce(text);
    return;
  }
  history.pop();
  keep();
  desk.queue.add({ kind: "undo grade", of: last.id, id: uuid() });
  desk.uncounted();
  recent.delete(last.record.id);
  one("#review").replaceChildren(unanswered);
  if (current) feed.putBack(current.item);
  show(new Item(last.record, [last.record.id]), last.grade);
  announce(`Undone. You had said: ${page.grades[last.grade].name}.`);
}

function keep() {
  history.splice(0, Math.max(0, history.length - 50));
  memory.set(kept, history);
}

desk.queue.addEventListener("sent", ({ detail: { event, result } }) => {
  if (event.kind !== "grade" || !result) return;
  learn(result);
  desk.settle({ done: result.given, mine: result.graded, wanted: result.wanted });
  if (history.at(-1)?.id === event.body.id) review(history.at(-2));
});

/** Show what is beside an image in the model's order; from then on its grade stands. */
async function review(given) {
  if (!given || given.stands) return;
  given.stands = true; // a lost reply may have been given: only one that says "nothing shown" takes this back
  keep();
  const box = one("#review");
  let found;
  try {
    found = await call("GET", `/grades/${given.id}/neighbours`);
  } catch (problem) {
    if (!problem.passing && problem.status !== 409) { given.stands = false; keep(); }
    return;
  }
  if (!found.below.length && !found.above.length) {
    given.stands = false;
    keep();
    box.replaceChildren("Neighbours appear here once there is a model.");
    return;
  }
  const picture = (id, name) => element("img", { src: pixels(id, "thumb"), alt: name });
  box.replaceChildren(
    ...found.below.map((id) => picture(id, `a little ${page.words.less}, according to the model`)),
    element("img", { class: "it", src: pixels(given.record.id, "thumb"), alt: "the image you graded before" }),
    ...found.above.map((id) => picture(id, `a little ${page.words.more}, according to the model`)),
    element("span", {}, `You said ${page.grades[given.grade].name}. These are its neighbours in the model’s order; your grade is final.`),
  );
}

const actions = Object.fromEntries(page.grades.slice(0, 10).map((g, i) => [`grade${i}`, { key: String(i), text: g.name, run: () => grade(i) }]));
const keys = new Keys({
  ...actions,
  skip: { key: " ", text: "skip", run: skip },
  undo: { key: "z", text: "undo", run: undo },
  examples: { key: "e", text: "examples of each grade", run: () => openExamples() },
  ...viewKeys(viewer),
  reset: { key: "r", text: "reset the view", run: () => viewer.reset() },
  theme: { key: "t", text: "dark or light", run: toggleTheme },
  help: { key: "?", text: "this help", run: () => help.open() },
  close: { key: "Escape", text: "close what is open", fixed: true, run: () => {} }, // the browser closes dialogs
}, "grade");

const help = new Help(keys, () => [["tap a grade", "grade the image"], ...touches, ["buttons", "skip, examples, undo"]]);

for (const button of all("[data-grade]")) button.addEventListener("click", () => grade(Number(button.dataset.grade)));
for (const button of all("[data-examples]")) button.addEventListener("click", () => openExamples(Number(button.dataset.examples)));
one("#show-examples").addEventListener("click", () => openExamples());
one("#undo").addEventListener("click", undo);
one("#skip").addEventListener("click", () => keys.actions.skip.run());
desk.watch(viewer);
releaseClicks();
feed.addEventListener("filled", () => { if (!current) next(); });
if (page.grades.length) feed.fill();
