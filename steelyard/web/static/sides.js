// Two pictures beside or above each other: what their places are called, and how fingers point at them.

import { page } from "./page.js";

const { words } = page;

/** Whether the pictures lie one above the other, as in compare.css. */
const tall = matchMedia("(max-aspect-ratio: 1/1)");
export const stacked = () => tall.matches;
export const place = (side) => (stacked() ? { left: "top", right: "bottom" } : { left: "left", right: "right" })[side];
export const spoken = (value, said = words) => (value === "left" || value === "right" ? `${place(value)} ${said.chosen}` : value);

/** Which way to swipe for which answer. */
export const swipes = () => (stacked() ? { up: "left", down: "right" } : { left: "left", right: "right" });

/** Light the chosen frame, or both, for a moment. */
export function flash(frames, value) {
  const lit = value === "left" ? [frames[0]] : value === "right" ? [frames[1]] : value === "equal" ? frames : [];
  for (const frame of lit) {
    frame.classList.add("chosen");
    setTimeout(() => frame.classList.remove("chosen"), 100);
  }
}
