// The progress page: four pictures with one sentence each, what is asked next and why, and when to stop. It looks
// again every few seconds and redraws only what has changed.

import { call, pixels } from "./api.js";
import { legend, lineChart, namesFit, scatterChart, violinChart } from "./charts.js";
import { ago, count, number, percent, planned, score } from "./format.js";
import "./menu.js";
import { at, element, one, page } from "./page.js";

const shown = new Map();

/** Run `draw` only when the data behind it differs from last time, so that open tables stay open. */
function changed(name, data, draw) {
  const text = JSON.stringify(data);
  if (shown.get(name) === text) return;
  shown.set(name, text);
  draw();
}

function table(node, head, rows) {
  node.replaceChildren(
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, i) => (i ? element("td", {}, String(cell)) : element("th", { scope: "row" }, String(cell))))))),
  );
}

function card(name, sentence, chart, head, rows, empty, key = null) {
  const root = one(`#${name}`);
  one(".sentence", root).textContent = sentence;
  one(".picture", root).replaceChildren(...[chart ?? element("p", { class: "empty" }, empty), chart && key].filter(Boolean));
  one("details", root).hidden = !rows.length;
  table(one("table", root), head, rows);
}

function accuracy(data) {
  const rows = data.history;
  const lines = [["this study", rows, "this study, with its 95 % interval"]];
  if (data.ahead.length) lines.push(["forecast", data.ahead, "forecast, with its 95 % interval"]);
  if (data.random.length) lines.push(["random pairs alone", data.random, "had only its random pairs been asked, with a 95 % interval at the end"]);
  const series = lines.map(([name, part]) => ({ name, points: part.map((r) => [r.answers, r.estimate]) }));
  lines.forEach(([name, part], i) => {
    if (name === "forecast") series[i].dots = false;
    if (name !== "random pairs alone") series[i].band = part.map((r) => [r.answers, r.low, r.high]);
    else series[i].bar = [part.at(-1).answers, part.at(-1).low, part.at(-1).high];
  });
  const levels = [{ value: 0.5, name: "a coin: 50 %" }];
  if (data.level != null) levels.push({ value: data.level, name: `asked for: ${percent(data.level)}` });
  const chart = rows.length && lineChart({
    title: "Estimated accuracy against answers", description: data.sentence, x: "answers", y: "correct pairs", low: Math.min(0.4, ...series.flatMap((s) => s.points.map((p) => p[1]))), high: 1,
    from: 0, levels, formatX: number, formatY: (v) => percent(v), series,
  });
  card("accuracy", data.sentence, chart || null, ["answers", "how chosen", "estimate", "low", "high"],
    chart ? lines.flatMap(([name, part]) => part.map((r) => [number(r.answers), name, percent(r.estimate, 1), percent(r.low, 1), percent(r.high, 1)])) : [],
    "Accuracy is estimated from pairs drawn at random. It is shown once there are enough of them to tell it within 15 points.",
    legend(lines.map((line) => line[2])));
}

function spread(data) {
  // Long names go below; the chart then has the grades' numbers.
  const fit = namesFit(data.shapes.map((s) => s.name));
  const chart = data.shapes.length && violinChart({
    title: "Distribution of scores", description: data.sentence, x: data.shapes.length > 1 ? "grade" : "", y: "score",
    shapes: fit ? data.shapes : data.shapes.map((s) => ({ ...s, name: String(s.grade) })),
  });
  card("spread", data.sentence, chart || null, ["grade", "images", "median score", "lowest", "highest"],
    data.shapes.map((s) => [s.name, number(s.count), score(s.median), score(s.low), score(s.high)]),
    "Scores appear after the first training.",
    fit ? null : element("ul", { class: "legend" }, ...data.shapes.map((s) => element("li", {}, element("strong", {}, String(s.grade)), element("span", {}, s.name)))));
}

function unsure(data) {
  const chart = data.points.length && scatterChart({
    title: "Uncertainty against score", description: data.sentence, x: "score", y: "± score",
    points: data.points.map((p) => ({ x: p.score, y: p.std, value: p.id, name: `score ${score(p.score)} ± ${score(p.std)}` })),
    choose: (id) => { location.href = at(`/ranking?image=${encodeURIComponent(id)}`); },
  });
  card("unsure", data.sentence, chart || null, ["image", "score", "±"],
    [...data.points].sort((a, b) => b.std - a.std).slice(0, 50).map((p) => [p.id.slice(0, 8), score(p.score), score(p.std)]),
    "Uncertainty appears after the first training.");
}

function people(data) {
  const day = (time) => new Date(time * 1000).toLocaleDateString("en", { day: "numeric", month: "short" });
  const hour = (time) => new Date(time * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false, ...(last - first < 600 ? { second: "2-digit" } : {}) });
  const others = data.rows.length - data.series.length;
  const times = data.series.flatMap((s) => s.points.map((p) => p[0]));
  const first = Math.min(...times);
  const last = Math.max(...times);
  const ticksX = last > first ? [first + (last - first) * 0.1, first + (last - first) * 0.5, first + (last - first) * 0.9] : [first];
  const chart = times.length && lineChart({
    title: "Answers over time", description: data.sentence, x: "", y: "answers", low: 0,
    ticksX, formatX: last - first > 2 * 86400 ? day : hour, formatY: number, series: data.series,
  });
  card("people", data.sentence, chart || null, ["annotator", "answers", "equal", "can’t judge", "undone", "seconds per answer", "last"],
    data.rows.map((r) => [r.annotator, number(r.answers), number(r.equal), number(r.cannot_judge), number(r.undone), r.seconds == null ? "–" : r.seconds.toFixed(1), r.last_at == null ? "–" : ago(r.last_at)]),
    "Nobody has answered yet. Open Compare and press a key.",
    legend(data.series.map((s) => s.name), others > 0 ? `and ${count(others, "other")}, in the numbers below` : ""));
}

/** Pairs that are asked for the same reason are one entry. */
function nextPairs(rows) {
  const groups = new Map();
  for (const row of rows) {
    const why = `${row.reason || "No reason was recorded."}\n${row.strategy}`;
    groups.set(why, [...(groups.get(why) ?? []), row]);
  }
  one("#next-none").hidden = rows.length > 0;
  one("#next-list").replaceChildren(...[...groups].map(([why, same]) => {
    const [reason, strategy] = why.split("\n");
    return element("li", {},
      element("div", { class: "next-pairs" }, ...same.map((row) => element("div", { class: "next-pair" },
        element("img", { src: pixels(row.first, "thumb"), alt: "one image of the pair" }), element("img", { src: pixels(row.second, "thumb"), alt: "the other image" })))),
      element("span", {}, same.length > 1 ? `${count(same.length, "pair")}, each with this reason: ${reason}` : reason, element("small", {}, ` ${strategy}`)));
  }));
}

function trainer(data) {
  one("#trainer-sentence").textContent = data.sentence;
  const bar = one("#trainer-bar");
  bar.hidden = !data.total;
  if (data.total) { bar.max = data.total; bar.value = data.done; }
  one("#trainer-log").textContent = data.log.join("\n");
  one("#trainer-log-box").hidden = !data.log.length;
}

async function look() {
  let data;
  try {
    data = await call("GET", "/progress");
  } catch (problem) {
    one("#state").textContent = problem.status === 401 ? "You were signed out. Sign in again to go on." : "The server cannot be reached. You see what it last said; nothing is lost.";
    return;
  }
  one("#state").textContent = `${data.answered > data.wanted ? planned(data.answered, data.wanted, "answer") : `${number(data.answered)} of ${number(data.wanted)} planned answers`} · ${count(data.images, "image")}`;
  changed("accuracy", data.accuracy, () => accuracy(data.accuracy));
  changed("spread", data.spread, () => spread(data.spread));
  changed("unsure", data.unsure, () => unsure(data.unsure));
  changed("people", data.people, () => people(data.people));
  changed("next", data.next, () => nextPairs(data.next));
  changed("trainer", data.trainer, () => trainer(data.trainer));
  one("#stop-text").textContent = data.stop;
}

/** A line for each question, and how their scales go together. */
async function questions() {
  const box = one("#questions");
  if (!box) return;
  const data = await call("GET", "/questions").catch(() => null); // the next look tries again
  if (!data) return;
  const name = (key) => key || "main";
  const two = (value) => value.toFixed(2);
  const rows = data.questions.map((q) => [q.reliability == null ? q.question : element("a", { href: at(`/ranking?scale=${q.key}`) }, q.question), number(q.answers), q.reliability == null ? "no scale yet" : two(q.reliability), q.accuracy == null ? "–" : `${percent(q.accuracy)} (${(100 * q.accuracy_low).toFixed()}–${percent(q.accuracy_high)})`.replaceAll(" %", "\u00a0%")]);
  const head = ["question", "answers", "reliability", "accuracy"];
  const cells = (kind, texts) => element("tr", {}, ...texts.map((text, k) => element(kind, kind === "th" ? { scope: "col" } : { "data-label": k ? head[k] : null }, text)));
  one("table", box).replaceChildren(element("thead", {}, cells("th", head)), element("tbody", {}, ...rows.map((row) => cells("td", row))));
  one("#questions-together").replaceChildren(...data.correlations.filter((c) => c.pearson != null).map((c) => element("li", {},
    `${name(c.one)} and ${name(c.other)}: correlation ${two(c.pearson)} (95 %: ${two(c.pearson_low)} to ${two(c.pearson_high)})`)));
}

await look();
await questions();
setInterval(() => { if (!document.hidden) questions(); }, 10 * page.pollSeconds * 1000);
setInterval(() => { if (!document.hidden) look(); }, page.pollSeconds * 1000);
