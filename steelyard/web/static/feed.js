// What comes next, already here: pairs (or single images) taken from the server ahead of time, their pictures
// fetched and the nearest ones decoded, so that showing the next one is a matter of one frame.

import { pixels } from "./api.js";

const DECODED = 2; // decoded pixels are large; further ahead only the files are kept
const SOON = 250, LATER = 1000; // milliseconds until an empty page asks again: a choice takes a moment, or as long as it takes

/** One thing to show: `id`, the ids of its `images`, and an <img> for each. */
export class Item {
  constructor(record, images) {
    this.record = record;
    this.images = images;
    this.nodes = [];
  }

  /** Start fetching; the same elements are shown later, so nothing is fetched or decoded twice. */
  load() {
    if (this.nodes.length) return;
    this.nodes = this.images.map((id) => {
      const node = new Image();
      node.draggable = false;
      node.decoding = "sync";
      node.alt = "";
      node.src = pixels(id);
      node.dataset.image = id;
      return node;
    });
  }

  /** Resolves when both pictures can be painted at once; rejects when one cannot be read. */
  decoded() {
    this.load();
    this.ready ??= Promise.all(this.nodes.map((node) => node.decode()));
    this.ready.catch(() => { this.ready = null; });
    return this.ready;
  }

  /** Resolves when every picture is on the screen, rejects when one cannot be: nobody is asked about what they do not see. */
  async painted() {
    await this.decoded();
    // The first frame paints what was decoded, the second comes when that one is on the screen.
    for (let frame = 0; frame < 2; frame++) await new Promise((resolve) => { requestAnimationFrame(resolve); });
    if (!this.seen) throw new Error("a picture is not on the screen");
  }

  /** Whether every picture is there, whole and in the page. */
  get seen() {
    return this.nodes.length > 0 && this.nodes.every((node) => node.complete && node.naturalWidth > 0 && node.isConnected);
  }

  /** The same once more, fetched anew. */
  again() {
    return new Item(this.record, this.images);
  }
}

export class Feed extends EventTarget {
  /**
   * @param {(count: number) => Promise<{items: Item[], state: string}>} fetchMore gives what this person holds,
   *   new ones included
   * @param {(item: Item) => boolean} fresh whether an item still has to be shown; asked again when its turn comes
   */
  constructor(fetchMore, fresh, ahead = 6) {
    super();
    this.fetchMore = fetchMore;
    this.fresh = fresh;
    this.ahead = ahead;
    this.items = [];
    this.state = "filling";
    this.filled = 0;
    this.patience = SOON;
  }

  /** Items that can be shown now, in their order. */
  get waiting() {
    return this.items.filter((item) => this.fresh(item));
  }

  /** The item that comes next, or null. */
  get next() {
    return this.items.find((item) => this.fresh(item)) ?? null;
  }

  /** The next item, or null; starts to refill. What must not be shown stays: an undo may bring it back. */
  take() {
    const [item = null, ...rest] = this.waiting;
    this.items = this.items.filter((one) => one !== item);
    this.prepare(rest);
    if (rest.length <= this.ahead / 2) this.fill(); // half at a time: a lease is a write on the server
    return item;
  }

  /** Put an item back in front (an undo brought an older one up). */
  putBack(item) {
    this.items.unshift(item);
  }

  /** Whether what is held may have gone to somebody else in the meantime. */
  stale(seconds) {
    return this.filled > 0 && Date.now() - this.filled > seconds * 1000;
  }

  /** Forget what is held and ask anew. */
  async renew() {
    this.items = [];
    await this.fill();
  }

  async fill() {
    if (this.busy) return this.busy;
    this.busy = this.refill();
    try {
      await this.busy;
    } finally {
      this.busy = null;
    }
  }

  async refill() {
    clearTimeout(this.timer);
    let wait = 0;
    try {
      const { items, state } = await this.fetchMore(this.ahead);
      this.items = this.waiting; // whatever may be shown again, the server gives again
      const held = new Set(this.items.map((item) => item.record.id));
      for (const item of items) {
        if (!held.has(item.record.id) && this.fresh(item)) this.items.push(item);
      }
      this.state = state;
      this.problem = null;
      this.filled = Date.now();
      this.prepare(this.items);
      if (this.items.length) this.patience = SOON;
      else if (state !== "done") {
        wait = state === "limit" ? 30000 : this.patience;
        this.patience = Math.min(2 * this.patience, LATER);
      }
    } catch (problem) {
      this.problem = problem;
      if (!this.items.length) this.state = "unreachable";
      wait = problem.personal ? 0 : Math.max(3000, Math.min(problem.after, 60) * 1000);
    }
    if (wait) this.timer = setTimeout(() => this.fill(), wait);
    this.dispatchEvent(new Event("filled"));
  }

  prepare(waiting) {
    waiting.slice(0, this.ahead).forEach((item, index) => {
      if (index < DECODED) item.decoded().catch(() => {});
      else item.load();
    });
  }
}
