// The ranking page: the wall, its axis, search and filter, one image among its neighbours, and where a new one falls.

import { call, pixels } from "./api.js";
import { Axis, below } from "./axis.js";
import { ago, count, most, number, score } from "./format.js";
import "./menu.js";
import { announce, at, element, one, page } from "./page.js";
import { Wall } from "./wall.js";

const form = one("#filter");
const dialog = one("#image");
const choice = one("#filter-scale"); // where there are several
let summary = null;

const filter = (extra = {}) => {
  const query = new URLSearchParams();
  for (const [key, value] of new FormData(form)) if (value) query.set(key, value);
  for (const [key, value] of Object.entries(extra)) query.set(key, value);
  return query.toString();
};

/** The scale that is shown: its key, question and words. */
const scale = () => page.scales.find(({ key }) => key === choice?.value) ?? { key: "", question: "", words: page.words };

const wall = new Wall(one("#wall"), async (start, limit) => (await call("GET", `/ranking?${filter({ start, limit })}`)).images);
const axis = new Axis(one("#axis"), one("#threshold"), one("#threshold-text"));

async function load() {
  const query = filter();
  summary = await call("GET", `/ranking/summary?${query}`);
  const scores = summary.count ? new Float32Array(await call("GET", `/ranking/scores?${query}`)) : new Float32Array();
  if (query !== filter()) return; // typed on in the meantime
  axis.show(scores);
  wall.reset(summary.count, summary.aspect);
  const empty = one("#empty");
  empty.hidden = summary.count > 0;
  one(".ranking-body").classList.toggle("none", summary.count === 0);
  one("#empty-title").textContent = summary.no_scale ? (scale().key === "composite" ? "There is no composite yet" : "This question has no scale yet") : "Nothing to show";
  one("#empty-text").textContent = summary.model === null
    ? "There is no model yet. Compare some pairs; the ranking appears after the first training."
    : summary.no_scale || "No image matches. Clear the search or choose another grade.";
  one("#table").hidden = summary.count === 0;
  one("#table").href = at(`/api/v1/ranking/table?${query}`);
  one("#filter-unlike").hidden = !summary.off_domain && !form.elements.off_domain.checked;
  one("#filter-unlike span").textContent = `unlike the others (${number(summary.off_domain ?? 0)})`;
  one("#count").textContent = summary.model === null || summary.no_scale ? "" : `${count(summary.count, "image")}${summary.count < summary.total ? ` of ${number(summary.total)}` : ""} · model made ${ago(summary.created)}`;
}

const fail = (problem) => { one("#count").textContent = `The ranking could not be loaded: ${problem.message} Nothing is lost; reload to try again.`; };
const reload = () => load().catch(fail);

wall.addEventListener("window", () => axis.setWindow(...wall.window));
wall.addEventListener("open", ({ detail }) => open(detail.id));
wall.addEventListener("look", ({ detail }) => look(detail));
wall.addEventListener("problem", ({ detail }) => fail(detail));
axis.addEventListener("go", ({ detail }) => wall.scrollTo(detail));
axis.addEventListener("threshold", ({ detail }) => wall.setThreshold(detail));

/** One line about the image under the pointer or focus. */
function look(row) {
  one("#look").textContent = [
    `rank ${number(row.rank)} of ${number(summary.total)}`,
    `score ${score(row.score)} (${score(row.low)} to ${score(row.high)})`,
    row.grade == null ? null : `grade ${row.grade}`,
    count(row.comparisons, "comparison"),
    row.off_domain ? "unlike the study’s other images" : null,
  ].filter(Boolean).join(" · ");
}

/** How well an image fits in, in words. */
function fit({ unlike, off_domain: off, domain_note: note }) {
  if (unlike == null) return note ? `Not known: ${note}.` : null;
  const share = `${most(unlike)} of the study’s images are more typical`;
  return off ? `Unlike the study’s other images: ${share}. Take its score with care.` : `${share}.${note ? ` Not flagged: ${note}.` : ""}`;
}

async function open(id) {
  const { key, words } = scale();
  const image = await call("GET", `/images/${encodeURIComponent(id)}?scale=${key}`).catch((problem) => { announce(problem.message); return null; });
  if (!image) return;
  one("#image-title").textContent = image.rank == null ? "Not ranked yet" : `Rank ${number(image.rank)} of ${number(image.total)}`;
  const thumb = (neighbour, text) => element("button", { type: "button", class: "neighbour", "aria-label": `${text}, score ${score(neighbour.score)}`, onclick: () => open(neighbour.id) },
    element("img", { src: pixels(neighbour.id, "thumb"), alt: "" }), element("span", {}, score(neighbour.score)));
  one("#image-place").replaceChildren(
    element("div", { class: "side" }, ...image.below.map((n) => thumb(n, words.less))),
    element("img", { class: "large", src: pixels(image.id), alt: "The image" }),
    element("div", { class: "side" }, ...image.above.map((n) => thumb(n, words.more))),
  );
  const fact = (name, value) => (value == null ? [] : [element("dt", {}, name), element("dd", {}, value)]);
  const scored = (at) => `${score(at.score)} (95 %: ${score(at.low)} to ${score(at.high)})`;
  const others = image.scales.filter((at) => at.scale !== image.scale);
  const named = (at) => page.scales.find((one) => one.key === at.scale)?.question ?? at.scale;
  one("#image-facts").replaceChildren(
    ...fact(others.length ? named(image) : "Score", image.score == null ? null : scored(image)),
    ...others.flatMap((at) => fact(named(at), `${scored(at)}, rank ${number(at.rank)}`)),
    ...fact("Fits in", fit(image)), ...fact("Grade", image.grade), ...fact("Group", image.group), ...fact("File", image.path),
    ...fact("Excluded", image.excluded ? `${image.excluded_reason || "no reason given"}, by ${image.excluded_by}` : null),
  );
  const said = key === "composite" ? page.words : words; // comparisons are listed of one question: of the main one there
  one("#image-comparisons").replaceChildren(...image.comparisons.map((c) => element("li", {},
    element("button", { type: "button", class: "neighbour small", "aria-label": "Show the other image", onclick: () => open(c.other) }, element("img", { src: pixels(c.other, "thumb"), alt: "" })),
    element("span", {}, `${{ more: `${said.more} than this`, less: `${said.less} than this`, equal: "equal to this", cannot: "could not be judged against this" }[c.outcome]} · ${c.annotator}, ${ago(c.answered_at)}`))));
  one("#image-count").textContent = count(image.comparisons.length, "comparison");
  one("#image-none").hidden = image.comparisons.length > 0;
  if (!dialog.open) dialog.showModal();
}

// ---- search and filter

let typing;
choice?.addEventListener("input", () => {
  axis.threshold = -Infinity; // a score of another scale is another thing
  wall.setThreshold(-Infinity);
  placed.hidden = true;
  wall.setNear([]);
  nameScale();
});

/** Say which scale it is; the address says so too, so that it can be sent to somebody. */
function nameScale() {
  const { key, words } = scale();
  one("#order").textContent = `${words.order[0].toUpperCase()}${words.order.slice(1)}`;
  const here = new URL(location.href);
  if (key) here.searchParams.set("scale", key); else here.searchParams.delete("scale");
  history.replaceState(null, "", here);
}

form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(reload, 200); });
form.addEventListener("submit", (event) => event.preventDefault());

// ---- where does a new image fall?

const placed = one("#placed");
async function place(file) {
  if (!file) return;
  placed.hidden = false;
  one("#placed-text").textContent = `Looking at ${file.name} …`;
  const strange = one("#placed-unlike");
  strange.hidden = true;
  const picture = one("#placed-picture");
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  const data = new FormData();
  data.append("file", file);
  try {
    const found = await call("POST", `/place?scale=${scale().key}`, { form: data, once: true });
    const scores = axis.sorted;
    one("#placed-text").textContent = `It falls at rank ${number(found.rank)} of ${number(found.total)}: score ${score(found.score)} (95 %: ${score(found.low)} to ${score(found.high)}). It was not added to the study.`;
    strange.hidden = !found.off_domain && !found.domain_note;
    strange.className = found.off_domain ? "strange" : "quiet";
    strange.textContent = found.off_domain
      ? `It does not look like the images of this study: ${most(found.unlike)} of them are more typical. Take this score with care.`
      : found.domain_note && `Whether it belongs here is not known: ${found.domain_note}.`;
    wall.setNear([...found.below, ...found.above].map((n) => n.id));
    wall.scrollTo(below(scores, found.score));
    announce(`${one("#placed-text").textContent} ${strange.textContent}`.trim());
  } catch (problem) {
    one("#placed-text").textContent = `${problem.message}`;
    announce(problem.message);
  }
}

let depth = 0; // dragenter and dragleave come for every child
addEventListener("dragenter", (event) => { if (event.dataTransfer?.types.includes("Files")) { depth += 1; one("#drop").hidden = false; } });
addEventListener("dragleave", () => { depth = Math.max(0, depth - 1); if (!depth) one("#drop").hidden = true; });
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  depth = 0;
  one("#drop").hidden = true;
  place(event.dataTransfer?.files[0]);
});
one("#place-file").addEventListener("change", (event) => { place(event.target.files[0]); event.target.value = ""; });
one("#placed-close").addEventListener("click", () => { placed.hidden = true; wall.setNear([]); });

// ---- the ranking moves when a new model comes

setInterval(async () => {
  if (document.hidden) return;
  const now = await call("GET", `/ranking/summary?${filter()}`).catch(() => null);
  if (now && summary && now.model !== summary.model) { await reload(); announce("A new model: the ranking has moved."); }
}, page.pollSeconds * 1000);

const asked = new URLSearchParams(location.search).get("scale");
if (choice && page.scales.some(({ key }) => key === asked)) { choice.value = asked; nameScale(); }
reload().then(() => { const id = new URLSearchParams(location.search).get("image"); if (id) open(id); });
