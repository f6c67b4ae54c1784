// On the progress page: one's own last session in words; for leads, how everybody answers.

import { call } from "./api.js";
import { sessionInWords } from "./coach.js";
import { date, number, percent } from "./format.js";
import { element, one, page } from "./page.js";

const share = (row) => (row.judged ? `${number(row.right)} of ${number(row.judged)}` : "–");
const interval = (row) => (row.low == null ? (row.judged ? "too few to say" : "–") : `${percent(row.low)} to ${percent(row.high)}`);
const seconds = (over) => (over?.whole ? `${over.whole.value.toFixed(1)}${over.first && over.last ? ` (${over.first.value.toFixed(1)} → ${over.last.value.toFixed(1)})` : ""}` : "–");
const steady = (over) => (over?.whole ? `${percent(over.whole.value)} of ${over.whole.n}` : "–");

async function own() {
  const sentences = await sessionInWords();
  one("#own-text").replaceChildren(...(sentences.length ? sentences : ["Nothing yet: it is told after your first answers."]).map((text) => element("p", {}, text)));
}

async function everybody() {
  const found = await call("GET", "/checks");
  const head = ["annotator", "hidden pairs right", "95% interval", "seconds per answer (first → last third)", "repeats answered alike", "agreed"];
  const agreed = new Map(found.agreements.map((one) => [one.name, `${date(one.at)}${one.current ? "" : " (earlier text)"}`]));
  const names = [...new Set([...found.people.map((row) => row.annotator), ...agreed.keys()])];
  const rows = names.map((name) => {
    const row = found.people.find((person) => person.annotator === name) ?? { judged: 0 };
    return [name, `${share(row)}${row.below ? ` – clearly below ${percent(found.wanted)}` : ""}`, interval(row), seconds(row.session?.seconds), steady(row.session?.repeats), agreed.get(name) ?? "–"];
  });
  one("#checks").hidden = !rows.length;
  one("#checks table").replaceChildren(
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, i) => (i ? element("td", { "data-label": head[i] }, cell) : element("th", { scope: "row" }, cell)))))),
  );
}

try {
  await own();
  if (page.mayLead) await everybody();
} catch { /* the page itself says that the server cannot be reached */ }
