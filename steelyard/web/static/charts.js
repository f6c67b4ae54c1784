// Three kinds of chart as crisp SVG. Colours are told apart by colour-blind people, and never carry meaning alone:
// lines differ in dash, points in place, and every chart has its numbers in a table.

const NS = "http://www.w3.org/2000/svg";
const DASHES = ["", "8 4", "2 4", "12 4 2 4", "4 4", "16 4"];
// A drawing unit is about a pixel, so that text has its usual size on phones and tablets too.
const WIDTH = Math.min(560, Math.max(300, document.querySelector(".picture")?.clientWidth || 560));
const HEIGHT = 300;
const BOX = { left: 56, right: 16, top: 40, bottom: 48 };

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) node.setAttribute(key, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

const say = (text, attributes) => svg("text", attributes, document.createTextNode(text));

/** Round steps (1, 2, 5 × 10ⁿ) that cover low … high. */
export function ticks(low, high, about = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

const scale = (from, to) => (value) => to[0] + ((value - from[0]) / (from[1] - from[0] || 1)) * (to[1] - to[0]);
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

let serial = 0;
function canvas(title, description) {
  const id = `chart-${serial++}`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "chart", "aria-labelledby": `${id}-t ${id}-d` },
    svg("title", { id: `${id}-t` }, document.createTextNode(title)),
    svg("desc", { id: `${id}-d` }, document.createTextNode(description)));
}

const plain = (value) => String(value).replace("-", "−");

function axes(root, { x, y, rangeX, rangeY, formatX = plain, formatY = plain, ticksX }) {
  const toX = scale(rangeX, [BOX.left, WIDTH - BOX.right]);
  const toY = scale(rangeY, [HEIGHT - BOX.bottom, BOX.top]);
  for (const value of ticks(...rangeY)) {
    root.append(svg("line", { x1: BOX.left, x2: WIDTH - BOX.right, y1: toY(value), y2: toY(value), class: "rule" }));
    root.append(say(formatY(value), { x: BOX.left - 8, y: toY(value) + 5, "text-anchor": "end", class: "tick" }));
  }
  for (const value of ticksX ?? ticks(...rangeX)) {
    root.append(say(formatX(value), { x: toX(value), y: HEIGHT - BOX.bottom + 20, "text-anchor": "middle", class: "tick" }));
  }
  root.append(say(x, { x: WIDTH - BOX.right, y: HEIGHT - 6, "text-anchor": "end", class: "axis" }));
  root.append(say(y, { x: 0, y: 16, class: "axis" }));
  return { toX, toY };
}

const extent = (values, fallback = [0, 1]) => {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (!(high >= low)) return fallback;
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
};

const stroke = (index) => ({ class: `curve series-${(index % 6) + 1}`, "stroke-dasharray": DASHES[index % 6] });

/** Which line is whose, below a chart: names of any length wrap, and never lie on the lines. */
export function legend(names, more = "") {
  const list = document.createElement("ul");
  list.className = "legend";
  names.forEach((name, index) => {
    const item = document.createElement("li");
    const text = document.createElement("span");
    text.textContent = name;
    item.append(svg("svg", { viewBox: "0 0 40 12", width: 40, height: 12, "aria-hidden": "true" }, svg("path", { d: "M0 6H40", ...stroke(index) })), text);
    list.append(item);
  });
  if (more) {
    const item = document.createElement("li");
    item.textContent = more;
    list.append(item);
  }
  return list;
}

/** Lines over a number, each with an optional band [x, low, high] and one bar [x, low, high], and dots unless `dots` is false; `levels` are named
    values to measure them by; `from` is where the axis begins. */
export function lineChart({ title, description = "", x, y, series, levels = [], low, high, from, formatX, formatY, ticksX }) {
  const root = canvas(title, description);
  const xs = series.flatMap((s) => s.points.map((p) => p[0]));
  const ys = series.flatMap((s) => [...s.points.map((p) => p[1]), ...(s.band ?? []).flatMap((b) => [b[1], b[2]])]);
  const rangeY = extent([...ys, ...levels.map((level) => level.value)]);
  const { toX, toY } = axes(root, {
    x, y, formatX, formatY, ticksX, rangeX: extent(from == null ? xs : [from, ...xs]),
    rangeY: [low ?? rangeY[0], high ?? rangeY[1]],
  });
  const inside = `inside-${serial++}`;
  root.append(svg("clipPath", { id: inside }, svg("rect", { x: BOX.left, y: BOX.top, width: WIDTH - BOX.left - BOX.right, height: HEIGHT - BOX.top - BOX.bottom })));
  for (const level of levels) {
    const at = toY(level.value);
    root.append(svg("line", { x1: BOX.left, x2: WIDTH - BOX.right, y1: at, y2: at, class: "level" }));
    root.append(say(level.name, { x: WIDTH - BOX.right, y: at + 16, "text-anchor": "end", class: "level-name" }));
  }
  series.forEach((s, index) => {
    const color = `series-${(index % 6) + 1}`;
    if (s.band?.length) {
      const up = s.band.map((b) => [toX(b[0]), toY(b[2])]);
      const down = s.band.map((b) => [toX(b[0]), toY(b[1])]).reverse();
      root.append(svg("path", { d: `${path([...up, ...down])}Z`, class: `band ${color}`, "clip-path": `url(#${inside})` }));
    }
    const points = s.points.map((p) => [toX(p[0]), toY(p[1])]);
    root.append(svg("path", { d: path(points), ...stroke(index) }));
    if (s.bar) root.append(svg("path", { d: `M${toX(s.bar[0])} ${toY(s.bar[1])}V${toY(s.bar[2])}`, class: `curve ${color}` }));
    if (points.length <= 40 && s.dots !== false) for (const [cx, cy] of points) root.append(svg("circle", { cx, cy, r: 3, class: `dot ${color}` }));
  });
  return root;
}

/** Whether names can stand side by side below their shapes. */
export const namesFit = (names) => Math.max(...names.map((name) => name.length)) * 8.5 < (WIDTH - BOX.left - BOX.right) / names.length;

/** Distributions side by side: `shapes` have a name, `bins` (centres) and `density` (0 … 1). */
export function violinChart({ title, description = "", x, y, shapes }) {
  const root = canvas(title, description);
  const { toY } = axes(root, { x, y, rangeX: [0, shapes.length], rangeY: extent(shapes.flatMap((s) => s.bins)), ticksX: [] });
  const room = (WIDTH - BOX.left - BOX.right) / shapes.length;
  shapes.forEach((shape, index) => {
    const middle = BOX.left + room * (index + 0.5);
    const half = Math.min(room * 0.45, 64);
    const seen = shape.bins.map((bin, i) => [bin, shape.density[i]]).filter(([, height]) => height > 0.002);
    const right = seen.map(([bin, height]) => [middle + height * half, toY(bin)]);
    const left = seen.map(([bin, height]) => [middle - height * half, toY(bin)]).reverse();
    root.append(svg("path", { d: `${path([...right, ...left])}Z`, class: `shape series-${(index % 6) + 1}` }));
    if (shape.median != null) root.append(svg("line", { x1: middle - half / 2, x2: middle + half / 2, y1: toY(shape.median), y2: toY(shape.median), class: "median" }));
    root.append(say(shape.name, { x: middle, y: HEIGHT - BOX.bottom + 20, "text-anchor": "middle", class: "tick" }));
  });
  return root;
}

/** Points that can be chosen: `points` are { x, y, name, value }. */
export function scatterChart({ title, description = "", x, y, points, choose }) {
  const root = canvas(title, description);
  const { toX, toY } = axes(root, {
    x, y, rangeX: extent(points.map((p) => p.x)), rangeY: [0, extent(points.map((p) => p.y))[1]],
  });
  for (const point of points) {
    const dot = svg("circle", { cx: toX(point.x), cy: toY(point.y), r: 4, class: "point series-1" }, svg("title", {}, document.createTextNode(point.name)));
    if (choose) dot.addEventListener("click", () => choose(point.value));
    root.append(dot);
  }
  return root;
}
