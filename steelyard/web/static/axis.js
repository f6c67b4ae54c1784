// The left margin of the wall: the score axis, the distribution as a violin, what is in sight, and a threshold
// that can be dragged or moved by keys. The lowest score is at the top, as on the wall.

import { svg, ticks } from "./charts.js";
import { count, score } from "./format.js";

/** How many of the ascending `sorted` are smaller than `value`. */
export function below(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Axis extends EventTarget {
  constructor(root, handle, text) {
    super();
    this.root = root;
    this.handle = handle;
    this.text = text;
    this.sorted = new Float32Array();
    this.threshold = -Infinity;
    new ResizeObserver(() => this.draw()).observe(root);
    root.addEventListener("click", (event) => {
      if (this.dragged) { this.dragged = false; return; }
      const box = root.getBoundingClientRect();
      this.dispatchEvent(new CustomEvent("go", { detail: below(this.sorted, this.toScore(event.clientY - box.top)) }));
    });
    handle.addEventListener("pointerdown", (event) => { handle.setPointerCapture(event.pointerId); this.dragging = true; event.preventDefault(); handle.focus(); });
    handle.addEventListener("pointermove", (event) => {
      if (!this.dragging) return;
      this.dragged = true;
      this.set(this.toScore(event.clientY - root.getBoundingClientRect().top));
    });
    for (const kind of ["pointerup", "pointercancel"]) handle.addEventListener(kind, () => { this.dragging = false; });
    handle.addEventListener("keydown", (event) => this.press(event));
  }

  get low() { return this.sorted[0] ?? 0; }
  get high() { return this.sorted[this.sorted.length - 1] ?? 1; }
  get height() { return Math.max(1, this.root.clientHeight - 32); }

  toY(value) { return 16 + ((value - this.low) / (this.high - this.low || 1)) * this.height; }
  toScore(y) { return this.low + ((y - 16) / this.height) * (this.high - this.low); }

  /** @param {Float32Array} sorted ascending scores */
  show(sorted) {
    this.sorted = sorted;
    this.draw();
    this.set(this.threshold === -Infinity ? this.low : this.threshold, false);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (!width || !this.sorted.length) { this.root.querySelector("svg")?.remove(); return; }
    const bins = 64;
    const counts = new Float64Array(bins);
    for (const value of this.sorted) counts[Math.min(bins - 1, Math.floor(((value - this.low) / (this.high - this.low || 1)) * bins))] += 1;
    const smooth = counts.map((_, i) => (counts[i - 1] ?? counts[i]) * 0.25 + counts[i] * 0.5 + (counts[i + 1] ?? counts[i]) * 0.25);
    const most = Math.max(...smooth, 1);
    const middle = width - 36;
    const at = (i) => this.toY(this.low + ((i + 0.5) / bins) * (this.high - this.low));
    const half = (i) => (smooth[i] / most) * 28;
    let d = "";
    for (let i = 0; i < bins; i++) d += `${i ? "L" : "M"}${(middle + half(i)).toFixed(1)} ${at(i).toFixed(1)}`;
    for (let i = bins - 1; i >= 0; i--) d += `L${(middle - half(i)).toFixed(1)} ${at(i).toFixed(1)}`;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    picture.append(svg("path", { d: `${d}Z`, class: "violin" }));
    this.sight = svg("rect", { x: middle - 32, width: 64, class: "sight", rx: 2 });
    picture.append(this.sight);
    const marks = ticks(this.low, this.high, Math.max(3, Math.floor(height / 80)));
    const whole = marks.every((value) => Number.isInteger(value));
    for (const value of marks) {
      const text = whole ? String(value).replace("-", "−") : score(value);
      picture.append(svg("text", { x: 8, y: this.toY(value) + 5, class: "tick" }, document.createTextNode(text)));
      picture.append(svg("line", { x1: middle - 36, x2: middle - 32, y1: this.toY(value), y2: this.toY(value), class: "rule" }));
    }
    this.root.querySelector("svg")?.remove();
    this.root.prepend(picture);
    this.place();
    if (this.window) this.setWindow(...this.window);
  }

  /** Which ranks are in sight. */
  setWindow(first, last) {
    this.window = [first, last];
    if (!this.sight || !this.sorted.length) return;
    const top = this.toY(this.sorted[Math.max(0, first)] ?? this.low);
    const bottom = this.toY(this.sorted[Math.min(this.sorted.length - 1, last)] ?? this.high);
    this.sight.setAttribute("y", top);
    this.sight.setAttribute("height", Math.max(3, bottom - top));
  }

  place() { this.handle.style.transform = `translateY(${this.toY(Math.max(this.threshold, this.low)) - 12}px)`; }

  set(value, tell = true) {
    this.threshold = Math.min(this.high, Math.max(this.low, value));
    const under = below(this.sorted, this.threshold);
    const above = this.sorted.length - under;
    const text = `${above.toLocaleString("en")} above, ${under.toLocaleString("en")} below`;
    this.text.textContent = this.sorted.length ? text : "";
    const set = (name, content) => this.handle.setAttribute(`aria-${name}`, content);
    set("valuemin", this.low); set("valuemax", this.high); set("valuenow", this.threshold);
    set("valuetext", `${score(this.threshold)}: ${count(above, "image")} above, ${count(under, "image")} below`);
    this.place();
    if (tell) this.dispatchEvent(new CustomEvent("threshold", { detail: this.threshold }));
  }

  press(event) {
    const step = (this.high - this.low) / 100;
    const change = { ArrowDown: step, ArrowRight: step, ArrowUp: -step, ArrowLeft: -step, PageDown: step * 10, PageUp: -step * 10, Home: -Infinity, End: Infinity }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    this.set(this.threshold + change);
  }
}
