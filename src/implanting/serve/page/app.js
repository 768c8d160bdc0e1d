// The frame of the page: the open project, the step, and the keys that work everywhere.

import { ask } from "./ask.js";
import { check } from "./check.js";
import { $, counted, dialog, h, note, typing } from "./dom.js";
import { Project } from "./project.js";
import { showProjects } from "./projects.js";
import { takeAway } from "./take-away.js";
import { pasteTarget, teach } from "./teach.js";
import { filesOf, upload } from "./upload.js";

const STEPS = { teach: ["Teach", teach], ask: ["Ask", ask], check: ["Check", check], take: ["Take away", takeAway] };
const main = $("#main");
let project = null, step = null, view = null;

const open = (id, at = "teach") => { location.hash = `#/${id}/${at}`; };

async function route() {
  const [, id, at] = location.hash.match(/^#\/(\d+)\/(\w+)$/) ?? [];
  leave();
  if (!id) {
    project?.close();
    project = step = null;
    frame();
    await showProjects(main, open);
    return;
  }
  if (project?.id !== Number(id)) {
    project?.close();
    project = new Project(Number(id));
    for (const event of ["changed", "looked", "learned"]) project.addEventListener(event, frame);
    project.addEventListener("offline", (event) => { const pill = $("#learning"); pill.textContent = "not connected"; pill.title = event.detail; });
    main.replaceChildren(h("p", { class: "empty-note" }, "Opening …"));
    await project.refresh();
    if (project.closed) return;
  }
  step = at in STEPS ? at : "teach";
  frame();
  const shown = STEPS[step][1](main, project);
  view = typeof shown === "function" ? { close: shown } : shown;
}

function leave() { view?.close(); view = null; }

function frame() {
  const there = project !== null;
  for (const part of ["#tabs", "#tools", "#project-name"]) $(part).hidden = !there;
  document.title = there ? `${project.name} – implanting` : "implanting";
  if (!there) return;
  if (document.activeElement !== $("#project-name")) $("#project-name").value = project.name;
  if ($("#tabs").dataset.step !== `${project.id} ${step}`) {
    $("#tabs").dataset.step = `${project.id} ${step}`;
    $("#tabs").replaceChildren(...Object.entries(STEPS).map(([name, [title]]) =>
      h("button", { "aria-current": name === step ? "page" : null, onclick: () => open(project.id, name) }, title)));
  }
  for (const [id, about] of [["#undo", project.undo], ["#redo", project.redo]]) {
    $(id).disabled = about === null;
    $(id).title = about === null ? `Nothing to ${id.slice(1)}` : `${id === "#undo" ? "Undo (Ctrl+Z)" : "Redo (Ctrl+Shift+Z)"}: ${about}`;
  }
  status();
}

function status() {
  const { busy, unread, read, revision } = project.learning, pill = $("#learning");
  const text = unread > 1 ? `Reading ${counted(unread, "photo")}` : busy ? "Learning" : revision ? "Learned" : "Needs photos of two classes";
  if (pill.textContent !== text) pill.textContent = text;
  pill.classList.toggle("busy", busy);
  if (unread > 20) {
    const bar = $("#progress"), all = read + unread;
    if (!bar.hidden && bar.dataset.kind !== "reading") return;  // an upload shows itself
    Object.assign(bar, { hidden: false });
    bar.dataset.kind = "reading";
    Object.assign(bar.querySelector("progress"), { max: all, value: read });
    bar.querySelector("span").textContent = `${read.toLocaleString("en")} of ${counted(all, "photo")} read; answers improve as more are read`;
  } else if ($("#progress").dataset.kind === "reading") { $("#progress").hidden = true; delete $("#progress").dataset.kind; }
}

function help() {
  const keys = [["Arrow keys", "go from photo to photo; with Shift, choose them"], ["Space", "choose a photo"], ["1 to 9", "move the chosen photos to that class"],
    ["0", "take the label away"], ["Delete", "remove the chosen photos"], ["Enter", "open a photo (or double-click it): its answer and its heat map"],
    ["Ctrl+Z", "undo, as far back as you like"], ["Ctrl+Shift+Z", "redo"], ["Ctrl+V", "paste a photo: into the class with the focus, or to ask about it"], ["?", "this list"]];
  dialog("Keys", h("table", {}, keys.map(([key, does]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, does)))),
    h("p", { class: "soft small" }, "Everything is saved at once, on this computer only."));
}

$("#home").addEventListener("click", () => { location.hash = ""; });
$("#undo").addEventListener("click", () => project?.takeBack());
$("#redo").addEventListener("click", () => project?.makeAgain());
$("#help").addEventListener("click", help);
$("#project-name").addEventListener("change", (event) => project?.change("PATCH", "", { name: event.target.value }));
$("#project-name").addEventListener("keydown", (event) => { if (event.key === "Enter") event.target.blur(); });

document.addEventListener("keydown", (event) => {
  if (!project || typing(event)) return;
  const key = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && key === "z") { event.preventDefault(); if (event.shiftKey) project.makeAgain(); else project.takeBack(); }
  else if ((event.ctrlKey || event.metaKey) && key === "y") { event.preventDefault(); project.makeAgain(); }
  else if (event.key === "?" && !document.querySelector("dialog[open]")) help();
});

document.addEventListener("paste", async (event) => {
  if (!project || typing(event)) return;
  const files = await filesOf(event.clipboardData);
  if (!files.length) return;
  const klass = step === "teach" ? pasteTarget() : null;
  if (klass === null && step === "ask") view.take(files);
  else { await upload(project, files, { klass }); if (klass === null) open(project.id, "ask"); }
});

// A file that misses its target must not replace the page.
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  if (!project || event.dataTransfer.getData("application/x-implanting-photos")) return;
  const files = await filesOf(event.dataTransfer);
  if (step === "ask") view.take(files); else upload(project, files, { byFolder: true });
});

window.addEventListener("hashchange", route);
window.addEventListener("unhandledrejection", (event) => note(event.reason?.message ?? String(event.reason), { bad: true }));
route();
