// The list of projects: make one, try the sample, open, remove, restore.

import { call, get, post, thumbnail } from "./api.js";
import { counted, h, note } from "./dom.js";

const STEPS = [
  ["Teach", "Drop a few photos of each thing. It learns as you go; five of each are a good start."],
  ["Ask", "Drop other photos. It names them, says how sure it is and where it looked, or says “none of these”."],
  ["Check", "See how often it is right, which photos it gets wrong, and what would help most."],
  ["Take away", "Keep the result as a file or a page of its own that answers just as this one does."],
];

export async function showProjects(main, open) {
  let rows = [];
  try { rows = await get("/projects"); } catch (error) { note(error.message, { bad: true }); }
  const again = () => showProjects(main, open);
  const act = async (method, path) => {
    try { await call(method, path); } catch (error) { note(error.message, { bad: true }); }
    again();
  };
  const name = h("input", { class: "field", placeholder: "Name of a new project", "aria-label": "Name of a new project", maxlength: "200" });
  const make = async (event) => {
    event.preventDefault();
    try { open((await post("/projects", { name: name.value.trim() || "My photos" })).id); } catch (error) { note(error.message, { bad: true }); }
  };
  const kept = rows.filter((row) => !row.removed), removed = rows.filter((row) => row.removed);
  const sample = h("button", { class: kept.length ? "button" : "button main", onclick: async () => {
    sample.disabled = true;
    sample.textContent = "Preparing the sample …";
    try { open((await post("/projects/sample")).id, "ask"); } catch (error) { note(error.message, { bad: true }); again(); }
  } }, "Try it with sample photos");
  main.replaceChildren(...[
    h("section", { class: "hero" },
      h("h1", {}, "Show it a few photos. It learns the rest."),
      h("p", {}, "Make a class for each thing to tell apart, drop some photos of it, and ask about others. Everything happens on this computer: no photo leaves it."),
      h("div", { class: "row" }, sample,
        h("form", { class: "new-class", onsubmit: make }, name, h("button", { class: kept.length ? "button main" : "button" }, "New project")))),
    kept.length ? null : h("section", { class: "cards steps", "aria-label": "How it goes" }, STEPS.map(([title, text], place) =>
      h("article", { class: "card stack tight" }, h("span", { class: "number" }, String(place + 1)), h("h2", {}, title), h("p", { class: "soft" }, text)))),
    h("section", { class: "stack" },
      kept.length ? h("h2", {}, "Projects") : null,
      h("div", { class: "cards" }, kept.map((row) => projectCard(row, open, act))),
      removed.length ? h("h2", {}, "Removed") : null,
      h("div", { class: "cards" }, removed.map((row) => removedCard(row, act)))),
  ].filter(Boolean));
}

function projectCard(row, open, act) {
  const changed = new Date(1000 * row.changed).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return h("article", { class: "card project-card" },
    h("div", { class: "cover" }, row.cover.map((photo) => h("img", { src: thumbnail(row.id, photo), alt: "" }))),
    h("button", { class: "project", onclick: () => open(row.id) },
      h("h3", {}, row.name), h("span", { class: "soft small" }, `${row.classes === 1 ? "1 class" : `${row.classes} classes`}, ${counted(row.photos, "photo")}`)),
    h("div", { class: "row spread small soft" }, h("span", {}, changed),
      h("button", { class: "button tiny", "aria-label": `Remove project ${row.name}`, onclick: () => act("DELETE", `/projects/${row.id}`) }, "Remove")));
}

function removedCard(row, act) {
  const last = h("button", { class: "button tiny danger", onclick: () => {
    if (last.dataset.sure) act("DELETE", `/projects/${row.id}/for-good`);
    else { last.dataset.sure = "1"; last.textContent = "Really? This cannot be undone"; }
  } }, "Delete for good");
  return h("article", { class: "card stack tight" }, h("h3", { class: "soft" }, row.name),
    h("div", { class: "row" }, h("button", { class: "button tiny", onclick: () => act("POST", `/projects/${row.id}/restore`) }, "Restore"), last));
}
