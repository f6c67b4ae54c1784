// Administration: people, tokens, wording, excluded images, the audit log. Everything goes through the API.

import { call, pixels } from "./api.js";
import { setUpQuestions } from "./asking.js";
import { ago, count, date } from "./format.js";
import "./menu.js";
import { announce, at, element, one, page } from "./page.js";

function say(text, good = true) {
  const note = one("#said");
  note.hidden = false;
  note.textContent = text;
  note.className = `notice ${good ? "good" : "bad"}`;
  announce(text);
}

/** Do something; say what went wrong in one place. */
async function attempt(work) {
  try { await work(); } catch (problem) { say(`${problem.message} Nothing was changed.`, false); }
}

const act = (text, run, name = text) => element("button", { type: "button", class: "plain", "aria-label": name, onclick: () => attempt(run) }, text);

// ---- people

async function people() {
  const { annotators, offered } = await call("GET", "/annotators");
  one("#people-offered")?.replaceChildren(...offered.map((name) => element("option", { value: name })));
  one("#people-none").hidden = annotators.length > 0;
  one("#people tbody").replaceChildren(...annotators.map((person) => {
    const role = element("select", { "aria-label": `Role of ${person.name}`, onchange: () => attempt(async () => {
      await call("PATCH", `/annotators/${encodeURIComponent(person.name)}`, { body: { role: role.value } });
      say(`${person.name} is now ${role.value}.`);
    }) }, ...["annotator", "lead", "admin"].map((name) => element("option", { value: name, selected: name === person.role }, name)));
    role.disabled = !page.mayManage;
    return element("tr", {},
      element("th", { scope: "row" }, person.name, person.active ? "" : " (inactive)"),
      element("td", { "data-label": "Role" }, role),
      element("td", { "data-label": "Signs in by" }, waysIn(person)),
      element("td", { class: "number", "data-label": "Answers" }, String(person.answers)),
      element("td", {}, element("div", { class: "actions" },
        ...(page.home ? [] : [
          act("New link", () => newLink(person.name), `New personal link for ${person.name}`),
          act("Set password", () => askPassword(person.name), `Set a password for ${person.name}`),
        ]),
        act(person.active ? "Deactivate" : "Activate", async () => {
          await call("PATCH", `/annotators/${encodeURIComponent(person.name)}`, { body: { active: !person.active } });
          await people();
          say(`${person.name} is ${person.active ? "deactivated; the answers stay" : "active again"}.`);
        }, `${person.active ? "Deactivate" : "Activate"} ${person.name}`))));
  }));
}

/** How somebody signs in, and until when. */
function waysIn(person) {
  if (page.home) return person.at_home ? page.home : `cannot: not active in ${page.home}`;
  const link = [person.link_once ? "works once" : null, person.link_expires ? `until ${date(person.link_expires)}` : null].filter(Boolean).join(", ");
  return [
    person.has_password ? "password" : null,
    person.has_link ? `link${link ? ` (${link})` : ""}` : null,
  ].filter(Boolean).join(", ") || "nothing yet";
}

async function newLink(name) {
  const days = one("#link-days").value;
  const body = { days: days ? Number(days) : null, reusable: Boolean(one("#link-reusable").value) };
  const { url, expires, reusable } = await call("POST", `/annotators/${encodeURIComponent(name)}/link`, { body });
  const good = `It works ${reusable ? "any number of times" : "once"}${expires ? ` and expires on ${date(expires)}` : ""}.`;
  reveal(`Personal link for ${name}. ${good} It is shown only once; any earlier link no longer works.`, url);
  await people();
}

function askPassword(name) {
  const dialog = one("#password");
  one("#password-name").textContent = name;
  dialog.dataset.name = name;
  one("#password-value").value = "";
  one("#password-note").hidden = true;
  dialog.showModal();
}

one("#password form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    const { name } = one("#password").dataset;
    const note = one("#password-note");
    note.hidden = true;
    try {
      await call("POST", `/annotators/${encodeURIComponent(name)}/password`, { body: { password: one("#password-value").value } });
    } catch (problem) { // said where the person is looking: the page is behind the dialog
      note.hidden = false;
      note.textContent = problem.message;
      return;
    }
    one("#password").close();
    await people();
    await tokens();
    say(`${name} can sign in with the new password.`);
  });
});

function reveal(text, secret) {
  one("#secret-text").textContent = text;
  one("#secret-value").value = secret;
  one("#secret").showModal();
  one("#secret-value").select();
}
one("#secret-copy").addEventListener("click", async () => {
  one("#secret-value").select();
  try { await navigator.clipboard.writeText(one("#secret-value").value); announce("Copied."); } catch { document.execCommand("copy"); }
});

one("#people-add").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  attempt(async () => {
    await call("POST", "/annotators", { body: { name: form.name.value.trim(), role: form.role.value } });
    if (page.home) {
      await people();
      say(`${form.name.value.trim()} is in this study now.`);
    } else await newLink(form.name.value.trim());
    form.reset();
  });
});

// ---- tokens

const ended = (token) => token.expires != null && token.expires * 1000 <= Date.now();

async function tokens() {
  const { tokens: rows } = await call("GET", "/tokens");
  one("#tokens-none").hidden = rows.length > 0;
  one("#tokens tbody").replaceChildren(...rows.map((token) => element("tr", {},
    element("th", { scope: "row" }, token.label), element("td", { "data-label": "Owner" }, token.annotator),
    element("td", { "data-label": "Can" }, { read: "read", answer: "answer", full: "do everything" }[token.scope]),
    element("td", { "data-label": "Expires" }, token.expires == null ? "never" : ended(token) ? "expired" : date(token.expires)),
    element("td", {}, token.last_used == null ? "never used" : `used ${ago(token.last_used)}`),
    element("td", {}, token.revoked ? "revoked" : ended(token) ? "" : element("div", { class: "actions" }, act("Revoke", async () => {
      await call("DELETE", `/tokens/${token.id}`);
      await tokens();
      say(`The token “${token.label}” no longer works.`);
    }, `Revoke ${token.label}`))))));
}

one("#tokens-add").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  attempt(async () => {
    const { token } = await call("POST", "/tokens", { body: {
      label: form.label.value.trim(), scope: form.scope.value, days: form.days.value ? Number(form.days.value) : null,
    } });
    reveal("API token. It is shown only once; send it as “Authorization: Bearer …”.", token);
    form.reset();
    await tokens();
  });
});

// ---- wording

async function saveWording(regrade = false) {
  const form = one("#wording");
  const lines = (area) => area.value.split("\n").map((line) => line.trim()).filter(Boolean);
  one("#regrade").hidden = true;
  const saved = await call("PATCH", "/study", { etag: form.dataset.etag, body: {
    question: form.question.value, more: form.more.value.trim(), scale: form.scale.value.trim(), reasons: lines(form.reasons), grades: lines(form.grades), regrade,
    break_minutes: Number(form.break_minutes.value), raters: Number(form.raters.value),
  } }).catch((problem) => {
    if (problem.code !== "regrade") throw problem;
    one("#regrade p").textContent = `${problem.message} Nothing was changed.`;
    one("#regrade").hidden = false;
    return null;
  });
  if (!saved) return;
  form.dataset.etag = saved.etag;
  form.more.placeholder = saved.words.chosen;
  form.scale.placeholder = saved.words.scale;
  say("Saved. People see it on the next page they open.");
}
one("#wording").addEventListener("submit", (event) => { event.preventDefault(); attempt(() => saveWording()); });
one("#regrade button").addEventListener("click", () => attempt(() => saveWording(true)));

setUpQuestions(attempt, say);

// ---- excluded images

async function excluded() {
  const { images } = await call("GET", "/images?excluded=true&limit=100");
  one("#excluded-none").hidden = images.length > 0;
  one("#excluded ul").replaceChildren(...images.map((image) => element("li", {},
    element("img", { src: pixels(image.id, "thumb"), alt: "excluded image" }),
    element("span", {}, `${image.excluded_reason || "no reason given"} · ${image.excluded_by}`),
    act("Take back in", async () => {
      await call("PATCH", `/images/${encodeURIComponent(image.id)}`, { body: { excluded: false } });
      await excluded();
      say("The image is back in the study.");
    }))));
}

// ---- audit

let cursor = null;
async function audit(more = false) {
  const log = await call("GET", `/audit?limit=20${more && cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  cursor = log.next;
  one("#audit-more").hidden = cursor === null;
  const rows = log.entries.map((entry) => element("tr", {},
    element("th", { scope: "row" }, ago(entry.at)), element("td", {}, entry.actor), element("td", {}, entry.action),
    element("td", {}, Object.entries(entry.detail).map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", "))));
  const body = one("#audit tbody");
  if (more) body.append(...rows); else body.replaceChildren(...rows);
}
one("#audit-more").addEventListener("click", () => attempt(() => audit(true)));

// ---- backup

one("#backup").addEventListener("click", () => attempt(async () => {
  say("Making a backup …");
  const made = await call("POST", "/backup");
  say(`The backup is ${made.file} (${count(made.bytes, "byte")}) in the study’s folder.`);
  const link = one("#backup-file");
  link.href = at(`/api/v1/${made.file}`);
  link.hidden = false;
}));

for (const load of [people, tokens, excluded, audit]) attempt(() => load());
