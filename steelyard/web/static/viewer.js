// One look at one or two pictures: the same zoom, pan, brightness and contrast for all of them.
// Positions are in parts of a frame, so that frames of equal size always show the same place.

const MOST = 16;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

export class Viewer extends EventTarget {
  /** @param {HTMLElement[]} frames each with one `.stage` */
  constructor(frames) {
    super();
    this.frames = frames;
    this.stages = frames.map((frame) => frame.querySelector(".stage"));
    this.pointers = new Map();
    this.reset();
    for (const frame of frames) this.listen(frame);
  }

  /** Show these <img> elements now; `next` are laid underneath, invisible, so that they are rastered already. */
  show(nodes, next = []) {
    this.stages.forEach((stage, index) => {
      const now = nodes[index];
      const later = next[index];
      for (const child of [...stage.children]) if (child !== now && child !== later) child.remove();
      if (later) { later.classList.remove("now"); if (later.parentNode !== stage) stage.append(later); }
      if (now) { if (now.parentNode !== stage) stage.append(now); now.classList.add("now"); }
    });
  }

  /** Whether what is shown is still being unpacked; until it is there, keys that answer do nothing. */
  set busy(value) { this.frames[0].parentNode.setAttribute("aria-busy", String(value)); }

  get node() { return this.stages[0].querySelector("img.now"); }

  reset() {
    Object.assign(this, { zoom: 1, x: 0, y: 0, brightness: 1, contrast: 1 });
    this.apply();
  }

  /** Back to the whole picture, brightness and contrast kept. */
  fit() { Object.assign(this, { zoom: 1, x: 0, y: 0 }); this.apply(); }

  /** One picture pixel on one screen pixel – or back, if it is so already. */
  async actual(frame = this.frames[0], at = { x: 0, y: 0 }) {
    if (this.zoom !== 1) { this.fit(); return; }
    await this.sharpen();
    const node = frame.querySelector("img.now");
    if (!node?.naturalWidth) return;
    const box = frame.getBoundingClientRect();
    const shown = Math.min(box.width / node.naturalWidth, box.height / node.naturalHeight);
    this.zoomTo(clamp(1 / shown / (globalThis.devicePixelRatio || 1), 1, MOST), at);
  }

  /** Zoom so that the place under `at` (parts of a frame from its middle) stays where it is. */
  zoomTo(zoom, at = { x: 0, y: 0 }) {
    const next = clamp(zoom, 1, MOST);
    this.x = at.x - (at.x - this.x) * (next / this.zoom);
    this.y = at.y - (at.y - this.y) * (next / this.zoom);
    this.zoom = next;
    if (next > 1.5) this.sharpen();
    this.apply();
  }

  zoomBy(factor, at) { this.zoomTo(this.zoom * factor, at); }

  panBy(x, y) { this.x += x; this.y += y; this.apply(); }

  light({ brightness = 0, contrast = 0 }) {
    this.brightness = clamp(this.brightness + brightness, 0.3, 3);
    this.contrast = clamp(this.contrast + contrast, 0.3, 3);
    this.apply();
  }

  apply() {
    const room = (this.zoom - 1) / 2;
    this.x = clamp(this.x, -room, room);
    this.y = clamp(this.y, -room, room);
    const transform = this.zoom === 1 ? "" : `translate(${this.x * 100}%, ${this.y * 100}%) scale(${this.zoom})`;
    const plain = this.brightness === 1 && this.contrast === 1;
    const filter = plain ? "" : `brightness(${this.brightness.toFixed(2)}) contrast(${this.contrast.toFixed(2)})`;
    for (const stage of this.stages) { stage.style.transform = transform; stage.style.filter = filter; }
    for (const frame of this.frames) frame.classList.toggle("movable", this.zoom > 1);
    this.dispatchEvent(new Event("change"));
  }

  /** A close look wants every pixel: exchange reduced pictures for the full ones. */
  async sharpen() {
    const nodes = this.stages.map((stage) => stage.querySelector("img.now")).filter(Boolean);
    await Promise.all(nodes.map(async (node) => {
      if (!node.src.includes("size=view") || Math.max(node.naturalWidth, node.naturalHeight) < 1600) return;
      const full = new Image();
      full.src = node.src.replace("size=view", "size=full");
      try { await full.decode(); node.src = full.src; await node.decode(); } catch { /* the reduced one stays */ }
    }));
  }

  place(event, frame) {
    const box = frame.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width - 0.5, y: (event.clientY - box.top) / box.height - 0.5 };
  }

  listen(frame) {
    frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-clamp(event.deltaY, -200, 200) / 400), this.place(event, frame));
    }, { passive: false });
    frame.addEventListener("dblclick", (event) => this.actual(frame, this.place(event, frame)));
    frame.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      frame.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, this.place(event, frame));
      this.start = { at: this.place(event, frame), time: event.timeStamp, touch: event.pointerType !== "mouse", many: this.pointers.size > 1 };
      frame.classList.add("moving");
    });
    frame.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const now = this.place(event, frame);
      this.pointers.set(event.pointerId, now);
      if (this.pointers.size === 1) {
        if (this.zoom > 1) this.panBy(now.x - before.x, now.y - before.y);
      } else {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y) || 1e-6;
        this.zoomBy(distance(now, other) / distance(before, other), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
      }
    });
    const end = (event) => {
      const last = this.pointers.get(event.pointerId);
      this.pointers.delete(event.pointerId);
      frame.classList.remove("moving");
      if (!last || event.type !== "pointerup" || !this.start?.touch || this.start.many || this.zoom > 1) return;
      if (event.timeStamp - this.start.time > 800) return;
      const box = frame.getBoundingClientRect();
      const way = { x: (last.x - this.start.at.x) * box.width, y: (last.y - this.start.at.y) * box.height };
      if (Math.max(Math.abs(way.x), Math.abs(way.y)) < 48) return;
      const across = Math.abs(way.x) > Math.abs(way.y);
      const towards = across ? (way.x < 0 ? "left" : "right") : way.y < 0 ? "up" : "down";
      this.dispatchEvent(new CustomEvent("swipe", { detail: towards }));
    };
    frame.addEventListener("pointerup", end);
    frame.addEventListener("pointercancel", end);
  }
}

/** Keys that move a look; for `Keys`. */
export const viewKeys = (viewer) => ({
  closer: { key: "+", text: "zoom in", run: () => viewer.zoomBy(1.5) },
  wider: { key: "-", text: "zoom out", run: () => viewer.zoomBy(1 / 1.5) },
  fit: { key: "f", text: "whole picture or 1:1", run: () => viewer.actual() },
  brighter: { key: "b", text: "brighter", run: () => viewer.light({ brightness: 0.1 }) },
  darker: { key: "n", text: "darker", run: () => viewer.light({ brightness: -0.1 }) },
  more: { key: "c", text: "more contrast", run: () => viewer.light({ contrast: 0.1 }) },
  less: { key: "v", text: "less contrast", run: () => viewer.light({ contrast: -0.1 }) },
});

/** What fingers do to a look; for `Help`. */
export const touches = [["pinch", "zoom both alike"], ["drag", "move around when zoomed in"], ["double tap", "whole picture or 1:1"]];
