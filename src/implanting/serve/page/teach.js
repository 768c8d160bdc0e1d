// Teach: a card for each class, with its photos; photos come by drop, choice, paste and camera.

import { camera } from "./camera.js";
import { counted, dialog, h, typing } from "./dom.js";
import { droppable, Grid, labelKeys } from "./grid.js";
import { photoPanel } from "./panel.js";
import { filesOf, pick, upload } from "./upload.js";

export function teach(main, project) {
  const list = h("div", { class: "classes" }), cards = new Map();
  const name = h("input", { class: "field", id: "new-class", placeholder: "Name of a new class", "aria-label": "Name of a new class", maxlength: "200" });
  const make = async (event) => {
    event.preventDefault();
    if (!name.value.trim()) return name.focus();
    const made = await project.change("POST", "/classes", { name: name.value });
    if (made) { name.value = ""; cards.get(made.id)?.add.focus(); }
  };
  const everywhere = h("div", { class: "drop" },
    h("p", {}, "Drop folders of photos here: each folder becomes a class with its name. Photos without a folder wait under Ask."),
    h("div", { class: "row" },
      h("button", { class: "button", onclick: async () => upload(project, await pick({ folder: true }), { byFolder: true }) }, "Choose a folder")));
  const hint = h("p", { class: "soft small" }, "Drag photos to another class, or choose some and press the number of the class. A double-click opens a photo.");
  main.replaceChildren(h("div", { class: "stack" },
    h("div", { class: "row spread" }, h("h1", {}, "Teach"),
      h("form", { class: "new-class", onsubmit: make }, name, h("button", { class: "button main" }, "Add class"))),
    list, hint, everywhere));
  droppable(everywhere, { files: async (transfer) => upload(project, await filesOf(transfer), { byFolder: true }), photos: (photos) => project.move(photos, null) });

  const show = () => {
    hint.hidden = !project.classes.length;
    everywhere.classList.toggle("wide", !project.classes.length);
    const groups = new Map(project.classes.map((one) => [one.id, []]));
    for (const photo of project.photos.values()) groups.get(photo.class_id)?.push(photo.id);
    for (const [id, card] of cards) if (!groups.has(id)) { card.close(); cards.delete(id); }
    project.classes.forEach((one, place) => {
      if (!cards.has(one.id)) cards.set(one.id, new ClassCard(project, one));
      const card = cards.get(one.id);
      card.show(one, place, groups.get(one.id));
      if (list.children[place] !== card.element) list.insertBefore(card.element, list.children[place] ?? null);
    });
  };
  show();
  if (!project.classes.length) name.focus();
  project.addEventListener("changed", show);
  return () => { project.removeEventListener("changed", show); for (const card of cards.values()) card.close(); };
}

class ClassCard {
  constructor(project, one) {
    this.project = project;
    this.id = one.id;
    this.name = h("input", { class: "quiet-input", "aria-label": "Class name", maxlength: "200",
      onchange: () => this.rename(), onkeydown: (event) => { if (event.key === "Enter") event.target.blur(); } });
    this.key = h("span", { class: "key", title: "The key that moves photos here" });
    this.count = h("span", { class: "soft small" });
    this.add = h("button", { class: "button tiny", onclick: async () => upload(project, await pick(), { klass: this.id }) }, "Add photos");
    this.grid = new Grid(project, { label: "Photos", rows: 3, empty: "Drop photos here.",
      open: (photo) => openPhoto(project, photo),
      keys: (event, photos) => labelKeys(project, event, photos) });
    const shoot = navigator.mediaDevices?.getUserMedia
      ? h("button", { class: "button tiny", onclick: () => camera(project, { klass: this.id, name: this.name.value }) }, "Camera") : null;
    const remove = h("button", { class: "icon", "aria-label": "Remove this class", title: "Remove this class and its photos",
      onclick: () => project.change("DELETE", `/classes/${this.id}`, undefined, `class ${this.name.value} removed`) }, "✕");
    this.element = h("article", { class: "card class" },
      h("div", { class: "row" }, this.key, this.name, this.count, remove),
      this.grid.element, this.grid.note, h("div", { class: "row" }, this.add, shoot));
    this.element.addEventListener("pointerenter", () => { ClassCard.under = this.id; });
    this.element.addEventListener("pointerleave", () => { if (ClassCard.under === this.id) ClassCard.under = null; });
    this.element.addEventListener("focusin", () => { ClassCard.focused = this.id; });
    droppable(this.element, {
      files: async (transfer) => upload(project, await filesOf(transfer), { klass: this.id }),
      photos: (photos) => project.move(photos, this.id) });
  }

  show(one, place, photos) {
    if (document.activeElement !== this.name) this.name.value = one.name;
    this.key.textContent = place < 9 ? String(place + 1) : "";
    this.key.hidden = place >= 9;
    this.count.textContent = counted(photos.length, "photo");
    this.element.setAttribute("aria-label", `Class ${one.name}`);
    this.grid.element.setAttribute("aria-label", `Photos of ${one.name}`);
    this.grid.show(photos);
  }

  async rename() {
    const old = this.project.classNamed(this.id);
    if (this.name.value.trim() === old) { this.name.value = old; return; }
    if (!await this.project.change("PATCH", `/classes/${this.id}`, { name: this.name.value })) this.name.value = old;
  }

  close() { this.grid.close(); this.element.remove(); }
}

// The class that a pasted photo joins: the card under the pointer, or the one with the focus.
export const pasteTarget = () => ClassCard.under ?? (document.activeElement?.closest(".class") ? ClassCard.focused : null);

export function openPhoto(project, photo) {
  const panel = photoPanel(project);
  const box = dialog(project.photos.get(photo)?.name ?? "Photo", panel.element);
  box.classList.add("wide");
  box.addEventListener("keydown", (event) => { if (!typing(event) && labelKeys(project, event, [photo])) event.preventDefault(); });
  panel.show(photo);
  const gone = () => { if (!project.photos.has(photo)) box.close(); };
  project.addEventListener("changed", gone);
  box.addEventListener("close", () => { panel.close(); project.removeEventListener("changed", gone); });
}
