// A list of thousands of photos, of which only those in view are elements. Keys move the active photo. As its element comes
// and goes, the list keeps the focus and names the active photo to screen readers by aria-activedescendant.

import { thumbnail } from "./api.js";
import { h, typing } from "./dom.js";

const GAP = 8, BEYOND = 2;  // pixels between tiles; rows that are drawn above and below the view
let grids = 0;

export class Grid {
  constructor(project, { label, tile = 92, rows = null, caption = null, open = () => {}, activate = () => {}, keys = () => false, empty = "" }) {
    Object.assign(this, { project, size: tile, rows, caption, open, activate, keys });
    this.photos = [];
    this.chosen = new Set();
    this.active = 0;
    this.prefix = `grid${++grids}-`;
    this.drawn = new Map();
    this.space = h("div", { role: "presentation" });
    this.element = h("div", { class: "grid", tabindex: "0", role: "listbox", "aria-multiselectable": "true", "aria-label": label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event), onclick: (event) => this.click(event),
      ondblclick: () => this.open(this.current), ondragstart: (event) => this.drag(event) }, this.space);
    this.note = h("p", { class: "empty-note small", hidden: true }, empty);
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.element);
  }

  get current() { return this.photos[this.active] ?? null; }
  get selection() { return this.chosen.size ? [...this.chosen] : this.current === null ? [] : [this.current]; }

  show(photos) {
    const current = this.current;
    this.photos = photos;
    const kept = new Set(photos);
    for (const photo of this.chosen) if (!kept.has(photo)) this.chosen.delete(photo);
    const place = current === null ? -1 : photos.indexOf(current);
    this.active = place >= 0 ? place : Math.min(this.active, Math.max(0, photos.length - 1));
    this.layout();
  }

  layout() {
    const width = this.element.clientWidth;
    this.across = Math.max(1, Math.floor((width + GAP) / (this.size + GAP)));
    this.side = width ? (width - GAP * (this.across - 1)) / this.across : this.size;
    const lines = Math.ceil(this.photos.length / this.across), step = this.side + GAP;
    this.space.style.height = `${Math.max(0, lines * step - GAP)}px`;
    const cut = this.rows !== null && lines > this.rows;  // then a part of the last row shows that there are more
    const height = (cut ? this.rows : lines) * step - GAP - (cut ? this.side * 0.35 : 0);
    this.element.style.height = `${Math.max(0, height)}px`;
    this.element.style.maxHeight = this.fill ?? "";
    this.element.hidden = !this.photos.length;
    this.note.hidden = Boolean(this.photos.length);
    this.draw();
  }

  draw() {
    const step = this.side + GAP, top = this.element.scrollTop;
    const first = Math.max(0, (Math.floor(top / step) - BEYOND) * this.across);
    const last = Math.min(this.photos.length, (Math.ceil((top + this.element.clientHeight) / step) + BEYOND) * this.across);
    const wanted = new Map();
    for (let place = first; place < last; place++) wanted.set(this.photos[place], place);
    for (const [photo, tile] of this.drawn) if (!wanted.has(photo)) { tile.remove(); this.drawn.delete(photo); }
    for (const [photo, place] of wanted) this.place(photo, place, step);
    const ordered = [...wanted.keys()].map((photo) => this.drawn.get(photo));  // in the order in which screen readers read them
    if (ordered.some((tile, place) => this.space.children[place] !== tile)) this.space.replaceChildren(...ordered);
    this.element.setAttribute("aria-activedescendant", this.current === null ? "" : this.prefix + this.current);
  }

  place(photo, place, step) {
    let tile = this.drawn.get(photo);
    if (!tile) {
      tile = h("div", { class: "tile", role: "option", id: this.prefix + photo, draggable: "true", data: { photo } },
        h("img", { src: thumbnail(this.project.id, this.project.photo(photo)), alt: "", decoding: "async" }));
      this.drawn.set(photo, tile);
    }
    Object.assign(tile.style, { width: `${this.side}px`, height: `${this.side}px`,
      transform: `translate(${(place % this.across) * step}px, ${Math.floor(place / this.across) * step}px)` });
    tile.classList.toggle("active", place === this.active);
    tile.classList.toggle("chosen", this.chosen.has(photo));
    tile.setAttribute("aria-selected", this.chosen.has(photo) || (!this.chosen.size && place === this.active));
    tile.setAttribute("aria-setsize", this.photos.length);
    tile.setAttribute("aria-posinset", place + 1);
    const caption = this.caption?.(photo), name = this.project.photos.get(photo)?.name ?? "photo";
    tile.setAttribute("aria-label", caption ? `${name}: ${caption.text} ${caption.value}` : name);
    tile.title = name;
    tile.querySelector(".label")?.remove();
    if (caption) tile.append(h("div", { class: caption.none ? "label none" : "label" }, h("span", {}, caption.text), h("span", {}, caption.value)));
  }

  go(place, { choose = false } = {}) {
    this.active = Math.max(0, Math.min(this.photos.length - 1, place));
    if (choose && this.current !== null) this.chosen.add(this.current);
    const step = this.side + GAP, top = Math.floor(this.active / this.across) * step, view = this.element;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + this.side > view.scrollTop + view.clientHeight) view.scrollTop = top + this.side - view.clientHeight;
    this.draw();
    this.activate(this.current);
  }

  click(event) {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    const photo = Number(tile.dataset.photo), place = this.photos.indexOf(photo);
    if (event.shiftKey) {
      const [low, high] = [this.active, place].sort((one, other) => one - other);
      for (let at = low; at <= high; at++) this.chosen.add(this.photos[at]);
    } else if (event.ctrlKey || event.metaKey) this.toggle(photo);
    else this.chosen.clear();
    this.element.focus({ preventScroll: true });
    this.go(place);
    if (event.pointerType === "touch") this.open(photo);  // a finger has neither keys nor a double-click
  }

  toggle(photo) { if (!this.chosen.delete(photo)) this.chosen.add(photo); }

  key(event) {
    if (typing(event) || this.current === null) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across,
      Home: -this.active, End: this.photos.length, PageDown: 4 * this.across, PageUp: -4 * this.across };
    if (event.key in steps) this.go(this.active + steps[event.key], { choose: event.shiftKey });
    else if (event.key === " ") { this.toggle(this.current); this.draw(); }
    else if (event.key === "Enter") this.open(this.current);
    else if (event.key === "Escape" && this.chosen.size) { this.chosen.clear(); this.draw(); }
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) { this.chosen = new Set(this.photos); this.draw(); }
    else if (!this.keys(event, this.selection)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  drag(event) {
    const photo = Number(event.target.closest(".tile")?.dataset.photo);
    if (!photo) return;
    const moved = this.chosen.has(photo) ? [...this.chosen] : [photo];
    event.dataTransfer.setData("application/x-implanting-photos", JSON.stringify(moved));
    event.dataTransfer.effectAllowed = "move";
  }

  close() { this.watcher.disconnect(); }
}

// Labels photos by key: 1 to 9 are the first nine classes, 0 takes the label away, Delete removes the photos. Returns whether
// the key was one of these.
export function labelKeys(project, event, photos) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (/^[1-9]$/.test(event.key)) {
    const klass = project.classes[Number(event.key) - 1];
    if (klass) project.move(photos, klass.id);
    return true;
  }
  if (event.key === "0") { project.move(photos, null); return true; }
  if (event.key === "Delete" || event.key === "Backspace") { project.remove(photos); return true; }
  return false;
}

// Makes an element take what is dropped on it: files from outside, or photos of this page.
export function droppable(element, { files, photos }) {
  let depth = 0;
  const over = (on) => element.classList.toggle("over", on);
  element.addEventListener("dragenter", (event) => { event.preventDefault(); depth++; over(true); });
  element.addEventListener("dragleave", () => { depth = Math.max(0, depth - 1); if (!depth) over(false); });
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    over(false);
    const moved = event.dataTransfer.getData("application/x-implanting-photos");
    if (moved) photos(JSON.parse(moved)); else files(event.dataTransfer);
  });
}
