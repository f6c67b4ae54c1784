// Several questions about one pair: the pair stays, one question follows the other, each with words of its own.

import { element, one, page } from "./page.js";

const HALF = `steelyard.half.${page.study}.${page.annotator}`; // of this tab: a pair whose questions are not all answered

export class Questions {
  constructor() {
    this.list = page.questions;
    this.at = 0;
    this.steps = one("#steps");
    this.steps.hidden = !this.several;
    this.steps.replaceChildren(...this.list.map(() => element("span")));
    if (this.several) addEventListener("resize", () => this.reserve());
    if (this.several) this.reserve();
  }

  /** Room for the longest question, so that the pictures keep their place when another one is asked. */
  reserve() {
    const line = one("#question");
    line.style.minHeight = "";
    const heights = this.list.map(({ question }) => { line.textContent = question; return line.offsetHeight; });
    line.style.minHeight = `${Math.max(...heights)}px`;
    line.textContent = this.text;
  }

  get several() { return this.list.length > 1; }

  /** The key of the question that is asked, empty for the main one. */
  get key() { return this.list[this.at].key; }

  get words() { return this.list[this.at].words; }

  get text() { return this.list[this.at].question; }

  wordsOf(key) { return (this.list.find((one) => one.key === (key ?? "")) ?? this.list[0]).words; }

  /** The first question after one that this person has not answered about a pair; -1 where none is left. */
  after(at, record) {
    return this.list.findIndex((one, index) => index > at && !record.answered?.includes(one.key));
  }

  /** Where a question stands; the main one for a key that is asked no more. */
  place(key) { return Math.max(0, this.list.findIndex((one) => one.key === (key ?? ""))); }

  /** Ask a question; a change is seen by the line of steps, and the words come up softly. */
  ask(at) {
    const changed = this.at !== at;
    this.at = at;
    const line = one("#question");
    line.textContent = this.text;
    if (!this.several) return;
    [...this.steps.children].forEach((step, index) => step.classList.toggle("now", index === at));
    this.steps.setAttribute("aria-label", `Question ${at + 1} of ${this.list.length}`);
    if (!changed) return;
    line.classList.remove("anew");
    void line.offsetWidth; // starts the animation again
    line.classList.add("anew");
  }

  /** Remember a pair half-way, so that loading the page again goes on with it; null: there is none. */
  keep(record) {
    try {
      if (record && this.at > 0) sessionStorage.setItem(HALF, JSON.stringify({ record, key: this.key }));
      else sessionStorage.removeItem(HALF);
    } catch { /* its other questions stay unanswered then; what was answered is safe */ }
  }

  /** The pair that was left half-way on this tab, and its question, once. */
  half() {
    try {
      const { record, key } = JSON.parse(sessionStorage.getItem(HALF) ?? "null") ?? {};
      return record && this.list.some((one) => one.key === key) ? { record, at: this.place(key) } : null;
    } catch { return null; }
  }
}
