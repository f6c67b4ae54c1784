// A wall of thumbnails of any length: only what is in sight (and a little more) is in the document, rows of data
// come in blocks as they are needed, and pictures are asked for once scrolling rests, so that flinging stays smooth.

import { pixels } from "./api.js";
import { score } from "./format.js";
import { element } from "./page.js";

const BLOCK = 200;
const OVERSCAN = 3; // rows
const REST = 60; // ms

export class Wall extends EventTarget {
  /**
   * @param {HTMLElement} scroller has a fixed height and scrolls
   * @param {(start: number, limit: number) => Promise<object[]>} fetchRows rows start … start+limit−1 of the ranking
   */
  constructor(scroller, fetchRows) {
    super();
    this.scroller = scroller;
    this.space = scroller.querySelector(".wall-space");
    this.fetchRows = fetchRows;
    this.cells = new Map(); // index → element
    this.blocks = new Map(); // number → rows, or a promise of them
    this.total = 0;
    this.aspect = 1;
    this.threshold = -Infinity;
    this.focused = 0;
    this.version = 0;
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.measure()).observe(scroller);
    this.space.addEventListener("keydown", (event) => this.move(event));
    this.space.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell?.row) this.dispatchEvent(new CustomEvent("open", { detail: cell.row }));
    });
    for (const kind of ["pointerover", "focusin"]) {
      this.space.addEventListener(kind, (event) => {
        const cell = event.target.closest(".cell");
        if (cell?.row) this.dispatchEvent(new CustomEvent("look", { detail: cell.row }));
      });
    }
  }

  /** Show another ranking: how many images, and width ÷ height of a typical one. */
  reset(total, aspect) {
    this.version += 1;
    this.total = total;
    this.aspect = Math.min(2, Math.max(0.5, aspect || 1));
    this.blocks.clear();
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.focused = Math.min(this.focused, Math.max(0, total - 1));
    this.measure();
  }

  measure() {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const wanted = width < 500 ? 88 : 120;
    this.columns = Math.max(2, Math.round(width / (wanted * Math.sqrt(this.aspect))));
    this.cellWidth = width / this.columns;
    this.cellHeight = Math.round(this.cellWidth / this.aspect);
    this.space.style.height = `${Math.ceil(this.total / this.columns) * this.cellHeight}px`;
    for (const [index, cell] of this.cells) this.position(cell, index);
    this.draw();
  }

  /** First and last index in sight. */
  get window() {
    const first = Math.floor(this.scroller.scrollTop / this.cellHeight);
    const last = Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / this.cellHeight);
    return [Math.min(first * this.columns, Math.max(0, this.total - 1)), Math.min(this.total, last * this.columns) - 1];
  }

  draw() {
    if (!this.columns) return;
    const [low, high] = this.window;
    const from = Math.max(0, low - OVERSCAN * this.columns);
    const to = Math.min(this.total - 1, high + OVERSCAN * this.columns);
    for (const [index, cell] of this.cells) {
      if (index < from || index > to) { cell.remove(); this.cells.delete(index); }
    }
    if (this.focused < from || this.focused > to) {
      // The wall stays reachable by Tab wherever it was scrolled to.
      this.focused = low;
      this.cells.get(low)?.setAttribute("tabindex", "0");
    }
    const fresh = document.createDocumentFragment();
    for (let index = from; index <= to; index++) {
      if (this.cells.has(index)) continue;
      const cell = element("button", { type: "button", class: "cell", role: "listitem", tabindex: index === this.focused ? 0 : -1, "aria-label": `Image ${index + 1} of ${this.total}, loading` });
      cell.index = index;
      this.position(cell, index);
      this.cells.set(index, cell);
      fresh.append(cell);
    }
    this.space.append(fresh);
    this.dispatchEvent(new Event("window"));
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.load(from, to), REST);
  }

  position(cell, index) {
    const row = Math.floor(index / this.columns);
    cell.style.width = `${this.cellWidth}px`;
    cell.style.height = `${this.cellHeight}px`;
    cell.style.transform = `translate(${(index % this.columns) * this.cellWidth}px, ${row * this.cellHeight}px)`;
  }

  async load(from, to) {
    const { version } = this;
    for (let block = Math.floor(from / BLOCK); block <= Math.floor(to / BLOCK); block++) {
      if (!this.blocks.has(block)) {
        this.blocks.set(block, this.fetchRows(block * BLOCK, BLOCK).catch((problem) => {
          if (version === this.version) this.blocks.delete(block);
          this.dispatchEvent(new CustomEvent("problem", { detail: problem }));
          return [];
        }));
      }
      const rows = await this.blocks.get(block);
      if (version !== this.version) return;
      rows.forEach((row, k) => {
        const cell = this.cells.get(block * BLOCK + k);
        if (cell && !cell.row) this.fill(cell, row);
      });
    }
  }

  fill(cell, row) {
    cell.row = row;
    cell.dataset.image = row.id;
    cell.setAttribute("aria-label", `Rank ${row.rank} of ${this.total}, score ${score(row.score)}${row.grade == null ? "" : `, ${row.grade}`}${row.off_domain ? ", unlike the study’s other images" : ""}`);
    cell.append(element("img", { src: pixels(row.id, "thumb"), alt: "", draggable: "false" }));
    if (row.off_domain) {
      cell.title = "Unlike the study’s other images";
      cell.append(element("span", { class: "unlike", "aria-hidden": "true" }, "unlike"));
    }
    this.mark(cell);
  }

  mark(cell) {
    if (!cell.row) return;
    cell.classList.toggle("below", cell.row.score < this.threshold);
    cell.classList.toggle("near", Boolean(this.near?.has(cell.row.id)));
  }

  /** Dim what scores below. */
  setThreshold(value) {
    this.threshold = value;
    for (const cell of this.cells.values()) this.mark(cell);
  }

  /** Point out some images. */
  setNear(ids) {
    this.near = new Set(ids);
    for (const cell of this.cells.values()) this.mark(cell);
  }

  scrollTo(index) {
    const row = Math.floor(index / this.columns);
    this.scroller.scrollTop = row * this.cellHeight - this.scroller.clientHeight / 2 + this.cellHeight / 2;
  }

  /** Arrow keys walk over the wall. */
  move(event) {
    const page = this.columns * Math.max(1, Math.floor(this.scroller.clientHeight / this.cellHeight));
    const step = {
      ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns,
      PageUp: -page, PageDown: page, Home: -this.total, End: this.total,
    }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const from = event.target.closest(".cell")?.index ?? this.focused;
    const next = Math.min(this.total - 1, Math.max(0, from + step));
    const row = Math.floor(next / this.columns);
    const top = row * this.cellHeight;
    const { scroller } = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + this.cellHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + this.cellHeight - scroller.clientHeight;
    this.cells.get(this.focused)?.setAttribute("tabindex", "-1");
    this.focused = next;
    this.draw();
    const cell = this.cells.get(next);
    cell?.setAttribute("tabindex", "0");
    cell?.focus({ preventScroll: true });
  }
}
