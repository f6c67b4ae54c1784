// The grade page: one picture, one key a grade. What the model thinks of its neighbours is shown after the answer
// only, so that it cannot steer it – and since a grade stands once they were shown, only after the next answer, so that
// the last one can always be undone.

import { call, pixels } from "./api.js";
import { Desk } from "./desk.js";
import { Feed, Item } from "./feed.js";
import { percent } from "./format.js";
import { Keys, releaseClicks } from "./keys.js";
import { toggleTheme } from "./menu.js";
import { all, announce, element, memory, one, page } from "./page.js";
import { uuid } from "./uuid.js";
import { Viewer, viewKeys } from "./viewer.js";

const desk = new Desk("grade");
const viewer = new Viewer(all(".frame"));
const kept = `grades.${page.study}.${page.annotator}`;
const history = memory.get(kept, []); // what was graded here, oldest first; `stands` once its neighbours were asked for
memory.drop(`undo.grade.${page.study}.${page.annotator}`); // written by 0.1, with names of images that are not used any more
const recent = new Set();
const skipped = new Set();
const unanswered = one("#review")?.textContent ?? "";
let current = null;

const feed = new Feed(
  async (count) => {
    const waiting = new Set(desk.queue.pending().filter((event) => event.kind === "grade").map((event) => event.body.image));
    const asked = desk.moment();
    const reply = await call("GET", `/grading/next?count=${count + waiting.size}`);
    desk.settle(reply.graded, reply.wanted, asked);
    return { items: reply.images.filter((image) => !waiting.has(image.id)).map((image) => new Item(image, [image.id])), state: reply.state };
  },
  (item) => item.record.id !== current?.item.record.id && !recent.has(item.record.id) && !skipped.has(item.record.id),
  4,
);

function show(item, was = null) {
  current = { item, was, shown: null };
  desk.present(viewer, item, feed.items[0]);
  showExamples(item.record.examples ?? []);
  for (const button of all("[data-grade]")) button.classList.toggle("was", was === Number(button.dataset.grade));
  item.decoded().catch(() => announce("The picture could not be loaded.")).then(() => {
    if (current?.item === item) { current.shown = Date.now() / 1000; viewer.busy = false; }
  });
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
  if (skipped.size) { // a handful is handed out at a time: what was skipped comes again
    skipped.clear();
    announce("The images you skipped come up again.");
    feed.fill();
  }
  one("#working").hidden = true;
  one("#finished").hidden = false;
  const done = feed.state === "done";
  one("#finished-title").textContent = done ? "Nothing left to grade" : "One moment";
  one("#finished-text").textContent = done
    ? "You have graded every image that is worth grading."
    : "The next images are being chosen; they appear here in a moment.";
}

function grade(value) {
  if (!current || current.shown === null || value >= page.grades.length) return;
  const now = Date.now() / 1000;
  const body = { id: uuid(), image: current.item.record.id, grade: value, shown_at: current.shown, answered_at: now };
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
  desk.settle(result.graded, result.wanted);
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
    ...found.below.map((id) => picture(id, "a little less severe, according to the model")),
    element("img", { class: "it", src: pixels(given.record.id, "thumb"), alt: "the image you graded before" }),
    ...found.above.map((id) => picture(id, "a little more severe, according to the model")),
    element("span", {}, `You said ${page.grades[given.grade].name}. These are its neighbours in the model’s order; your grade is final.`),
  );
}

const actions = Object.fromEntries(page.grades.slice(0, 10).map((g, i) => [`grade${i}`, { key: String(i), text: g.name, run: () => grade(i) }]));
const keys = new Keys({
  ...actions,
  skip: { key: " ", text: "skip", run: () => { if (current) { skipped.add(current.item.record.id); next(); } } },
  undo: { key: "z", text: "undo", run: undo },
  examples: { key: "e", text: "examples of each grade", run: () => openExamples() },
  ...viewKeys(viewer),
  reset: { key: "r", text: "reset the view", run: () => viewer.reset() },
  theme: { key: "t", text: "dark or light", run: toggleTheme },
  help: { key: "?", text: "show the keys", run: () => { keys.list(one("#keys-body")); one("#keys").showModal(); } },
}, "grade");

for (const button of all("[data-grade]")) button.addEventListener("click", () => grade(Number(button.dataset.grade)));
for (const button of all("[data-examples]")) button.addEventListener("click", () => openExamples(Number(button.dataset.examples)));
one("#show-examples").addEventListener("click", () => openExamples());
for (const button of all("[data-opens=keys]")) button.addEventListener("click", () => keys.list(one("#keys-body")));
one("#keys-restore").addEventListener("click", () => { keys.restore(); keys.list(one("#keys-body")); });
one("#undo").addEventListener("click", undo);
one("#skip").addEventListener("click", () => keys.actions.skip.run());
one("#reset").addEventListener("click", () => viewer.reset());
viewer.addEventListener("change", () => {
  const changed = viewer.zoom !== 1 || viewer.brightness !== 1 || viewer.contrast !== 1;
  one("#reset").hidden = !changed;
  one("#look").textContent = changed ? `${viewer.zoom.toFixed(1)}× · brightness ${percent(viewer.brightness)} · contrast ${percent(viewer.contrast)}` : "";
});
releaseClicks();
feed.addEventListener("filled", () => { if (!current) next(); });
if (page.grades.length) feed.fill();
