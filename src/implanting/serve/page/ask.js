// Ask: photos without a label, each with its answer, in any order, labelled with one key.

import { camera } from "./camera.js";
import { get } from "./api.js";
import { counted, h, note, percent, typing } from "./dom.js";
import { droppable, Grid, labelKeys } from "./grid.js";
import { photoPanel } from "./panel.js";
import { filesOf, pick, upload } from "./upload.js";

const SORTS = {
  next: "What to label next", unsure: "Least certain first", sure: "Most certain first", answer: "By answer", none: "None of these first", name: "By name", new: "Newest first",
};
let sorting = "new";

export function ask(main, project) {
  let answers = new Map(), next = [];
  const panel = photoPanel(project, { labelled: () => grid.element.focus() });
  const open = (photo) => {
    panel.show(photo);
    if (panel.element.getBoundingClientRect().top < 0) panel.element.scrollIntoView();  // above the list, where the page is narrow
  };
  panel.element.hidden = true;
  const grid = new Grid(project, { label: "Photos to ask about", tile: 128, caption: (photo) => captionOf(project, answers.get(photo)),
    activate: (photo) => panel.show(photo), open,
    keys: (event, photos) => labelKeys(project, event, photos) });
  grid.fill = "min(62vh, 720px)";
  grid.element.classList.add("marked");
  const sort = h("select", { class: "field", "aria-label": "Order", onchange: () => { sorting = sort.value; show(); grid.go(0); grid.element.focus(); } },
    Object.entries(SORTS).map(([value, text]) => h("option", { value }, text)));
  sort.value = sorting;
  const count = h("span", { class: "soft" });
  const take = async (files) => {
    const added = await upload(project, files);
    if (added.length) { if (added.length > 1 || sorting === "new") show(); select(added.at(-1)); }
  };
  const drop = h("div", { class: "drop" },
    h("p", {}, "Drop or paste photos or folders."),
    h("div", { class: "row" },
      h("button", { class: "button main", onclick: async () => take(await pick()) }, "Choose photos"),
      h("button", { class: "button", onclick: async () => take(await pick({ folder: true })) }, "Choose a folder"),
      navigator.mediaDevices?.getUserMedia ? h("button", { class: "button", onclick: () => camera(project, { taken: (added, box) => { box.close(); select(added[0]); } }) }, "Camera") : null));
  const csv = h("a", { class: "button tiny", href: `/api/projects/${project.id}/answers.csv`, download: "answers.csv" }, "Download CSV");
  const bar = h("div", { class: "row spread" }, count, h("div", { class: "row" }, sort, csv));
  const hint = h("p", { class: "soft small" }, "Arrow keys move, ", h("kbd", {}, "1"), " to ", h("kbd", {}, "9"), " label the photo (it joins that class), ", h("kbd", {}, "Delete"), " removes it.");
  main.replaceChildren(h("div", { class: "stack" }, h("h1", {}, "Ask"),
    h("div", { class: "ask" }, h("div", { class: "stack" }, drop, bar, grid.element, hint), panel.element)));
  droppable(drop, { files: async (transfer) => take(await filesOf(transfer)), photos: (photos) => project.move(photos, null) });

  const select = (photo) => {
    const place = grid.photos.indexOf(photo);
    if (place >= 0) { grid.chosen.clear(); grid.go(place); } else panel.show(photo);
  };
  const show = () => {
    const photos = project.of(null);
    const shown = grid.current;
    grid.show(sorted(project, photos, answers, next));
    count.textContent = photos.length ? `${counted(photos.length, "photo")} without a label` : "No photos to ask about yet.";
    bar.hidden = hint.hidden = !photos.length;
    drop.classList.toggle("slim", photos.length > 0);
    drop.classList.toggle("wide", !photos.length);
    if (grid.current !== shown || panel.photo === null || !project.photos.has(panel.photo)) panel.show(grid.current);
  };
  const learned = async () => {
    if (project.learning.revision === null && project.learning.busy) return show();
    try {
      const found = await get(project.path("/answers"));
      answers = new Map(found.answers.map((one) => [one.photo, one]));
      next = found.next;
    } catch (error) {
      answers = new Map();
      if (error.status !== 409) note(error.message, { bad: true });
    }
    return show();
  };
  let waiting = null;
  const changed = () => { show(); clearTimeout(waiting); waiting = setTimeout(learned, 150); };
  const looked = () => { if (project.of(null).some((photo) => !answers.has(photo)) && !project.learning.busy && project.learning.revision) { clearTimeout(waiting); waiting = setTimeout(learned, 150); } };
  project.addEventListener("changed", changed);
  project.addEventListener("learned", learned);
  project.addEventListener("looked", looked);
  show();
  learned();
  return { take, close() {
    clearTimeout(waiting);
    project.removeEventListener("changed", changed);
    project.removeEventListener("learned", learned);
    project.removeEventListener("looked", looked);
    grid.close();
    panel.close();
  } };
}

function captionOf(project, answer) {
  if (!answer) return null;
  if (answer.none_of_these) return { text: "none of these", value: "", none: true };
  return { text: project.classNamed(answer.class_id), value: percent(answer.probability) };
}

function sorted(project, photos, answers, next) {
  const name = (photo) => project.photos.get(photo)?.name ?? "";
  const by = (value) => [...photos].sort((one, other) => {
    const [first, second] = [value(one), value(other)];
    return first < second ? -1 : first > second ? 1 : one - other;
  });
  const of = (photo, field, missing) => answers.get(photo)?.[field] ?? missing;
  if (sorting === "next") {
    const place = new Map(next.map((photo, number) => [photo, number]));
    return by((photo) => place.get(photo) ?? next.length + 1 - of(photo, "uncertainty", 0));
  }
  if (sorting === "unsure") return by((photo) => -of(photo, "uncertainty", -1));
  if (sorting === "sure") return by((photo) => of(photo, "uncertainty", 2));
  if (sorting === "answer") return by((photo) => `${captionOf(project, answers.get(photo))?.text ?? ""}\n${2 - of(photo, "probability", 0)}`);
  if (sorting === "none") return by((photo) => (of(photo, "none_of_these", false) ? 0 : 1));
  if (sorting === "new") return by((photo) => -photo);
  return by((photo) => name(photo).toLowerCase());
}
