// The open project as the page knows it: loaded once, then kept up to date by what changed since a revision.

import { get, post, call } from "./api.js";
import { dropPassing, note } from "./dom.js";

const QUICK = 350, SLOW = 4000;  // milliseconds between looks: while something is being learned, and otherwise

export class Project extends EventTarget {
  constructor(id) {
    super();
    this.id = id;
    this.name = "";
    this.revision = 0;
    this.classes = [];
    this.photos = new Map();
    this.learning = { busy: true, read: 0, unread: 0, revision: null, classifier: null };
    this.undo = this.redo = null;
    this.timer = null;
    this.closed = false;
  }

  path(rest = "") { return `/projects/${this.id}${rest}`; }

  async refresh() {
    clearTimeout(this.timer);
    const before = { revision: this.revision, learned: this.learning.revision, busy: this.learning.busy, unread: this.learning.unread };
    try {
      this.take(await get(this.path(`?since=${this.revision}`)), before);
    } catch (error) {
      if (!this.closed && error.status === 404) { this.closed = true; location.hash = ""; note(error.message, { bad: true }); }
      this.dispatchEvent(new CustomEvent("offline", { detail: error.message }));
    }
    if (!this.closed) this.timer = setTimeout(() => this.refresh(), this.learning.busy ? QUICK : SLOW);
  }

  take(state, before) {
    this.name = state.name;
    this.classes = state.classes;
    this.undo = state.undo;
    this.redo = state.redo;
    this.learning = state.learning;
    this.revision = Math.max(this.revision, state.revision);
    for (const photo of state.photos) {
      if (photo.removed) this.photos.delete(photo.id);
      else this.photos.set(photo.id, photo);
    }
    if (this.revision !== before.revision) this.dispatchEvent(new Event("changed"));
    if (this.learning.revision !== before.learned || before.busy && !this.learning.busy) this.dispatchEvent(new Event("learned"));
    this.dispatchEvent(new Event("looked"));
  }

  close() { this.closed = true; clearTimeout(this.timer); }

  photo(id) { return this.photos.get(id) ?? { id, key: "" }; }  // without a key, the browser keeps no picture

  of(klass) { return [...this.photos.values()].filter((photo) => photo.class_id === klass).map((photo) => photo.id); }

  classNamed(id) { return this.classes.find((one) => one.id === id)?.name ?? "unlabelled"; }

  // A change, then what it changed; a problem is shown and leaves everything as it was.
  async change(method, rest, body, said = null) {
    dropPassing();
    try {
      const done = await call(method, this.path(rest), body);
      await this.refresh();
      if (said) note(said, { passing: true, action: { name: "Undo", run: () => this.takeBack() } });
      return done;
    } catch (error) {
      note(error.message, { bad: true });
      await this.refresh();
      return null;
    }
  }

  move(photos, klass) {
    const said = `${photos.length === 1 ? this.photos.get(photos[0])?.name : `${photos.length} photos`} → ${klass === null ? "unlabelled" : this.classNamed(klass)}`;
    return this.change("POST", "/photos/move", { photos, class_id: klass }, said);
  }

  remove(photos) {
    return this.change("POST", "/photos/remove", { photos }, `${photos.length === 1 ? "1 photo" : `${photos.length} photos`} removed`);
  }

  takeBack() { return this.change("POST", "/undo"); }
  makeAgain() { return this.change("POST", "/redo"); }

  async addClass(name, group) {
    const same = this.classes.find((one) => one.name === name.trim());
    if (same) return same.id;
    const done = await post(this.path("/classes"), { name, group });
    return done.id;
  }
}
