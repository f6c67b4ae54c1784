// The agreement page: figures about all answers, a line for each person, and images on which answers and model differ.
// Looked at once: some of it takes seconds in a large study.

import { call, pixels } from "./api.js";
import { count, number, percent, score } from "./format.js";
import "./menu.js";
import { at, element, one, page } from "./page.js";

const missing = "–";
const share = (value) => (value == null ? missing : percent(value));
const plain = (value, digits = 2) => (value == null ? missing : value.toFixed(digits));
const span = (low, high, format = percent) => (low == null ? "" : `${format(low)} to ${format(high)}`);
const noted = (text, more) => (more ? [text, element("small", {}, ` ${more}`)] : [text]);

/** name, what it is of a person; those of leads are null for annotators, who are told nothing about others or the model. */
const COLUMNS = [
  ["answers", (p) => noted(number(p.answers), `${number(p.equal)} equal, ${number(p.cannot_judge)}\u00a0can’t\u00a0judge`)],
  ["seconds", (p) => [plain(p.seconds, 1)]],
  ["left chosen", (p) => noted(share(p.left_share), span(p.left_low, p.left_high))],
  ["again alike", (p) => (p.repeats ? noted(`${number(p.repeats_alike)} of ${number(p.repeats)}`, span(p.repeats_low, p.repeats_high)) : [missing])],
  ["circular threes", (p) => (p.triangles ? noted(`${number(p.circular)} of ${number(p.triangles)}`, `guessing ${number(Math.round(p.circular_expected))}`) : [missing])],
];
const LEADS = [
  ["as others", (p) => noted(share(p.others_alike), p.others ? `of ${number(p.others)}` : "")],
  ["in line", (p) => noted(share(p.in_line), p.in_line == null ? "" : `expected ${percent(p.in_line_expected)}`)],
  ["infit", (p) => [plain(p.infit)]],
  ["outfit", (p) => [plain(p.outfit)]],
  ["counts as", (p) => (p.judge ? noted(plain(p.judge.worth), `lapses ${percent(p.judge.lapse)}`) : [missing])],
  ["quick against slow", (p) => noted(p.quick_gap == null ? missing : signed(p.quick_gap), span(p.quick_low, p.quick_high, signed))],
];

function signed(value) {
  const text = percent(Math.abs(value));
  return text.startsWith("0 ") ? text : `${value < 0 ? "−" : "+"}${text}`;
}

function table(node, head, rows) {
  node.replaceChildren(
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map(([first, ...cells]) => element("tr", {},
      element("th", { scope: "row" }, first),
      ...cells.map((cell, k) => element("td", { dataset: { label: head[k + 1] } }, ...cell))))),
  );
}

function figures(data) {
  const shown = data.filter((figure) => figure.means);
  one("#figures").hidden = !shown.length;
  one("#figures .figures").replaceChildren(...shown.map((figure) => {
    const [value, ...rest] = figure.shown.split(" (");
    return element("li", {},
      element("h3", {}, figure.name),
      element("p", { class: "value" }, value, ...rest.map((text) => element("small", {}, ` (${text}`))),
      element("p", {}, figure.means));
  }));
}

function people(data) {
  const columns = page.lead ? [...COLUMNS, ...LEADS] : COLUMNS;
  one("#people").hidden = !data.people.length;
  table(one("#people table"), ["person", ...columns.map(([name]) => name)],
    data.people.map((person) => [person.annotator, ...columns.map(([, cell]) => cell(person))]));
  const said = data.people.flatMap((person) => person.about.map((text) => element("li", {}, element("strong", {}, `${person.annotator}:`), ` ${text}`)));
  one("#people .about").replaceChildren(...(said.length ? said : [element("li", {}, "Nothing stands out.")]));
  one("#people .legend").textContent = page.lead
    ? `Intervals are of 95 %. In line: with ${data.against}, which did not see the answers. Infit and outfit: how much answers surprise, 1 is as expected. Counts as: how many answers of an ordinary person one of theirs is worth to the model, and how many are probably given without looking.`
    : "Intervals are of 95 %. Sides are drawn by chance, so half is expected. A circular three is A over B, B over C, and C over A.";
  one("#between").hidden = !data.between.length;
  table(one("#between table"), ["people", "pairs", "agreement", "Cohen’s κ"],
    data.between.map((two) => [`${two.first} and ${two.second}`, [number(two.pairs)], [share(two.agreement)], [two.kappa == null ? missing : score(two.kappa)]]));
}

function images(data) {
  one("#differing").hidden = false;
  one("#differing .sentence").textContent = data.total > data.images.length ? `${data.sentence} The first ${number(data.images.length)} are shown.` : data.sentence;
  const row = (name, value, high) => [element("dt", {}, name), element("dd", {}, `${score(value)} ± ${score(high - value)}`)];
  one("#differing .images").replaceChildren(...data.images.map((image) => element("li", {},
    element("a", { href: at(`/ranking?image=${encodeURIComponent(image.id)}`) },
      element("img", { src: pixels(image.id, "thumb"), alt: "The image, with its comparisons", loading: "lazy" })),
    element("div", {},
      element("dl", {}, ...row("answers", image.alone, image.alone_high), ...row("model", image.placed, image.placed_high)),
      element("p", {}, image.sentence)))));
}

function failed(problem) {
  one("#state").textContent = problem.status === 401 ? "You were signed out. Sign in again to go on." : "The server cannot be reached. Nothing is lost; open the page again.";
}

async function look() {
  const found = await call("GET", "/agreement");
  one("#state").textContent = count(found.answers, "answer");
  const enough = found.between.length > 0;
  one("#notice").textContent = found.sentence;
  one("#notice").hidden = enough;
  if (enough) one("#state").textContent = found.sentence;
  if (!found.answers) return;
  figures(found.figures);
  people(found);
  if (!page.lead) return;
  one("#files").hidden = false;
  images(await call("GET", "/agreement/images"));
}

try {
  await look();
} catch (problem) {
  failed(problem);
}
document.body.dataset.ready = "true";
