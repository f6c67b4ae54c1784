// Administration, further questions: what is asked about every pair besides the main question; added, worded anew, removed.

import { call } from "./api.js";
import { count } from "./format.js";
import { element, one, page } from "./page.js";

/**
 * @param {(work: () => Promise<void>) => Promise<void>} attempt do something and say what went wrong
 * @param {(text: string) => void} say
 */
export function setUpQuestions(attempt, say) {
  const field = (label, attributes, wide = true) => element("label", { class: wide ? "field grow" : "field" }, label, element("input", { autocomplete: "off", ...attributes }));

  function show(questions) {
    const none = one("#asking-none");
    if (none) none.hidden = questions.length > 0;
    one("#asking-list").replaceChildren(...questions.map((asked) => {
      const form = element("form", { class: "asked", "aria-label": `Question ${asked.key}`, dataset: { key: asked.key } },
        element("h3", {}, asked.key, element("span", { class: "quiet" }, ` · ${count(asked.answers, "answer")}`)),
        element("div", { class: "fields" },
          field("Question", { name: "question", value: asked.question, required: true, maxlength: 200 }),
          field("Counts in the composite", { name: "weight", type: "number", step: "any", min: -1000, max: 1000, value: asked.weight, required: true }, false)),
        element("div", { class: "fields" },
          field("Said of the image that is chosen: “left …”", { name: "more", value: asked.more, maxlength: 60, placeholder: asked.words.chosen }),
          field("What the score measures: “a … score”", { name: "scale", value: asked.scale, maxlength: 60, placeholder: asked.words.scale })),
        element("div", { class: "fields" },
          element("button", { class: "primary", "aria-label": `Save ${asked.key}` }, "Save"),
          asked.answers ? null : element("button", { type: "button", "aria-label": `Remove ${asked.key}`, onclick: () => attempt(async () => {
            change(await call("DELETE", `/questions/${asked.key}`));
            say(`“${asked.question}” is asked no more.`);
          }) }, "Remove")));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const { question, more, scale, weight } = form.elements;
        attempt(async () => {
          change(await call("PATCH", `/questions/${asked.key}`, { body: {
            question: question.value.trim(), more: more.value.trim(), scale: scale.value.trim(), weight: Number(weight.value),
          } }), asked.key);
          say("Saved. People see it on the next page they open.");
        });
      });
      return form;
    }));
  }

  /** Show what is set now, and keep what somebody is typing into the forms of other questions. */
  function change({ questions }, saved = null) {
    const typed = new Map([...document.querySelectorAll("#asking-list form")].filter((form) => form.dataset.key !== saved)
      .map((form) => [form.dataset.key, Object.fromEntries(new FormData(form))]));
    show(questions);
    for (const form of document.querySelectorAll("#asking-list form")) {
      for (const [name, value] of Object.entries(typed.get(form.dataset.key) ?? {})) form.elements[name].value = value;
    }
  }

  one("#asking-add")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    attempt(async () => {
      const question = form.elements.question.value.trim();
      change(await call("POST", "/questions", { body: { key: form.elements.key.value.trim(), question } }));
      form.reset();
      say(`“${question}” is asked from the next pair on.`);
    });
  });

  show(page.asking);
}
