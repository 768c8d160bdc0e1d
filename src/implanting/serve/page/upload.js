// Photos on their way to the service: a few requests at once, each of a few photos, with progress and all refusals.

import { post } from "./api.js";
import { $, counted, dialog, h, note } from "./dom.js";

const AT_ONCE = 3, TOGETHER = 8, TOGETHER_BYTES = 16 * 2 ** 20;
const IMAGE = /\.(apng|avif|bmp|gif|heic|heif|jfif|jpe|jpe?g|mpo|p[bgpn]m|png|tiff?|webp)$/i;

// The files that were dropped or chosen: [{file, folder}], where folder is the name of the innermost folder, or null.
export async function filesOf(transfer) {
  const entries = [...(transfer.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, folder: null }));
  const found = [];
  for (const entry of entries) await walk(entry, null, found);
  return found;
}

async function walk(entry, folder, found) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    if (folder === null || IMAGE.test(file.name) || file.type.startsWith("image/")) found.push({ file, folder });
    return;
  }
  const reader = entry.createReader();
  for (;;) {  // a browser gives at most 100 at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return;
    for (const child of some) await walk(child, entry.name, found);
  }
}

export function chosen(input) {
  return [...input.files].map((file) => {
    const parts = (file.webkitRelativePath ?? "").split("/");
    return { file, folder: parts.length > 1 ? parts[parts.length - 2] : null };
  }).filter(({ file, folder }) => folder === null || IMAGE.test(file.name) || file.type.startsWith("image/"));
}

// A picker for files or a folder; the promise gives what was chosen.
export function pick({ folder = false } = {}) {
  return new Promise((done) => {
    const input = h("input", { type: "file", multiple: true, class: "visually-hidden", "aria-label": "Choose photos" });
    if (folder) input.webkitdirectory = true; else input.accept = "image/*";
    input.addEventListener("change", () => { done(chosen(input)); input.remove(); });
    input.addEventListener("cancel", () => { done([]); input.remove(); });
    document.body.append(input);
    input.click();
  });
}

const natural = new Intl.Collator("en", { numeric: true }).compare;

// Into a class, or by folders into classes of their names, or unlabelled.
export async function upload(project, files, { klass = null, byFolder = false } = {}) {
  if (!files.length) return [];
  files.sort((one, other) => natural(one.folder ?? "", other.folder ?? "") || natural(one.file.name, other.file.name));
  const classes = new Map(), group = crypto.randomUUID?.() ?? String(Math.random());
  const run = new Run(project, files.length);
  if (byFolder) {
    for (const { folder } of files) {
      if (folder === null || classes.has(folder)) continue;
      classes.set(folder, null);  // where no class can have this name, its photos stay unlabelled
      try { classes.set(folder, await project.addClass(folder, group)); } catch (error) { note(error.message, { bad: true }); }
    }
  }
  const target = ({ folder }) => (byFolder && folder !== null ? classes.get(folder) : klass);
  const batches = batched(files, target);
  const worker = async () => {
    for (let batch = batches.shift(); batch; batch = batches.shift()) await run.send(batch, group);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return run.finish();
}

function batched(files, target) {
  const batches = [];
  for (const one of files) {
    const klass = target(one), last = batches.at(-1);
    const fits = last && last.klass === klass && last.files.length < TOGETHER && last.bytes + one.file.size < TOGETHER_BYTES;
    if (fits) { last.files.push(one.file); last.bytes += one.file.size; }
    else batches.push({ klass, files: [one.file], bytes: one.file.size });
  }
  return batches;
}

class Run {
  constructor(project, total) {
    this.project = project;
    this.total = total;
    this.done = this.known = 0;
    this.added = [];
    this.refused = [];
    this.looked = performance.now();
    this.showing = setTimeout(() => this.show(), 250);  // a quick upload shows no bar
  }

  async send(batch, group) {
    const form = new FormData();
    for (const file of batch.files) form.append("files", file, file.name);
    if (batch.klass !== null) form.append("class_id", batch.klass);
    form.append("group", group);
    try {
      const result = await post(this.project.path("/photos"), form);
      this.added.push(...result.added.map((one) => one.id));
      this.known += result.added.filter((one) => !one.new).length;
      this.refused.push(...result.refused);
    } catch (error) {
      this.refused.push(...batch.files.map((file) => ({ name: file.name, message: error.message })));
    }
    this.done += batch.files.length;
    if (!$("#progress").hidden) this.show();
    if (performance.now() - this.looked > 1000) { this.looked = performance.now(); this.project.refresh(); }
  }

  show() {
    const bar = $("#progress");
    clearTimeout(this.showing);
    bar.hidden = false;
    delete bar.dataset.kind;
    bar.querySelector("progress").max = this.total;
    bar.querySelector("progress").value = this.done;
    bar.querySelector("span").textContent = `${this.done.toLocaleString("en")} of ${counted(this.total, "photo")} saved`;
  }

  async finish() {
    clearTimeout(this.showing);
    $("#progress").hidden = true;
    await this.project.refresh();
    const fresh = this.added.length - this.known;
    const also = this.known ? `, ${this.known} there already` : "";
    if (fresh || this.known) note(`${counted(fresh, "photo")} added${also}`, { passing: true, action: { name: "Undo", run: () => this.project.takeBack() } });
    if (this.refused.length === 1) note(this.refused[0].message, { bad: true });
    else if (this.refused.length) this.list();
    return this.added;
  }

  list() {
    note(`${counted(this.refused.length, "file")} could not be read`, { bad: true, action: { name: "Which?", run: () =>
      dialog("Files that could not be read", h("ul", { class: "stack tight small" }, this.refused.map((one) => h("li", {}, one.message)))) } });
  }
}
