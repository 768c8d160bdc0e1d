// Check: how good the classifier is by its own examples, and what would make it better.

import { get, thumbnail } from "./api.js";
import { counted, h, percent } from "./dom.js";
import { Grid, labelKeys } from "./grid.js";
import { openPhoto } from "./teach.js";

export function check(main, project) {
  let open = null, grid = null, asked = 0;
  const body = h("div", { class: "stack" });
  main.replaceChildren(h("div", { class: "stack" }, h("h1", {}, "Check"), body));
  const look = async () => {
    const turn = ++asked;
    let figures;
    try {
      figures = await get(project.path("/figures"));
    } catch (error) {
      if (turn === asked) body.replaceChildren(h("p", { class: "card empty-note" }, error.message));
      return;
    }
    if (turn !== asked) return;
    const scroll = window.scrollY, focused = placeOf(document.activeElement);
    grid?.close();
    body.replaceChildren(...sections(figures));
    window.scrollTo(0, scroll);
    focused?.();
  };
  const sections = (figures) => {
    const cell = h("div", { class: "stack tight" });
    const showCell = (one, button) => {
      open = one && `${one.truth} ${one.answer}`;
      for (const other of body.querySelectorAll(".matrix button")) other.setAttribute("aria-pressed", String(other === button));
      grid?.close();
      grid = new Grid(project, { label: "Photos of this cell", tile: 96, rows: 3, open: (photo) => openPhoto(project, photo), keys: (event, photos) => labelKeys(project, event, photos) });
      cell.replaceChildren(h("p", { class: "small soft" }, `${counted(one.photos.length, "photo")} of ${project.classNamed(one.truth)}, taken for ${project.classNamed(one.answer)}. Enter opens one, 1 to 9 move it.`), grid.element);
      grid.show(one.photos);
    };
    return [
      h("div", { class: "columns" },
        h("div", { class: "column" }, summary(project, figures), perClass(project, figures), duplicates(project, figures)),
        h("div", { class: "column" }, advice(figures), mislabelled(project, figures),
          h("section", { class: "card stack" }, h("h2", {}, "What is taken for what"),
            h("p", { class: "soft small" }, "Rows are the true classes, columns the answers. Press a cell to see its photos."),
            matrix(project, figures, showCell, open), cell))),
    ];
  };
  look();
  project.addEventListener("learned", look);
  return { close() { project.removeEventListener("learned", look); grid?.close(); } };
}

// A function that gives the focus back to the button at the same place of its list, once the list has been drawn again.
function placeOf(element) {
  const list = element?.closest("#mislabelled, #duplicates");
  if (!list) return null;
  const kind = element.className, place = [...list.querySelectorAll("button")].filter((one) => one.className === kind).indexOf(element);
  return () => {
    const left = [...document.querySelectorAll(`#${list.id} button`)].filter((one) => one.className === kind);
    (left[Math.min(place, left.length - 1)] ?? document.querySelector("#main")).focus({ preventScroll: true });
  };
}

const whole = (share) => Math.round(100 * share);

function summary(project, figures) {
  const share = figures.accuracy;
  return h("section", { class: "card stack tight", id: "summary" }, h("h2", {}, "How often it is right"),
    share.total
      ? [h("p", { class: "figure" }, `${whole(share.right / share.total)} %`),
        h("p", {}, `between ${whole(share.low)} and ${whole(share.high)} % with 95 % confidence, from ${counted(share.total, "photo")}`),
        h("p", { class: "soft small" }, "Each photo was classified by a classifier that had not seen it.")]
      : h("p", { class: "soft" }, "No class has two photos yet, so none can be left out to test with."));
}

function advice(figures) {
  return h("section", { class: "card stack tight", id: "advice" }, h("h2", {}, "What would help"),
    h("ul", { class: "advice" }, figures.advice.length ? figures.advice.map((one) => h("li", {}, one.text))
      : h("li", { class: "good" }, "Nothing stands out. Ask about photos that it has not seen.")));
}

function perClass(project, figures) {
  const rows = figures.per_class.flatMap((share) => {
    const track = h("div", { class: "range", role: "img", "aria-label": share.total ? `${whole(share.low)} to ${whole(share.high)} %` : "unknown" });
    if (share.total) {
      const interval = h("i"), mark = h("b");
      Object.assign(interval.style, { left: `${100 * share.low}%`, width: `${100 * (share.high - share.low)}%` });
      mark.style.left = `${100 * share.right / share.total}%`;
      track.append(interval, mark);
    }
    return [h("span", { class: "name", title: project.classNamed(share.class_id) }, project.classNamed(share.class_id)), track,
      h("span", { class: "soft small" }, share.total ? `${share.right} of ${share.total}` : "needs 2 photos")];
  });
  return h("section", { class: "card stack" }, h("h2", {}, "Class by class"),
    h("p", { class: "soft small" }, "The line is the share of right answers, the band its 95 % interval: the fewer photos, the wider the band."),
    h("div", { class: "per-class" }, rows));
}

function matrix(project, figures, showCell, open) {
  const ids = figures.per_class.map((one) => one.class_id);
  const cells = new Map(figures.confusion.map((one) => [`${one.truth} ${one.answer}`, one]));
  let again = null;
  const cellOf = (truth, answer) => {
    const one = cells.get(`${truth} ${answer}`);
    if (!one) return h("td", {}, h("span", { class: "empty" }, "·"));
    const button = h("button", { "aria-pressed": "false", "aria-label": `${one.photos.length} of ${project.classNamed(truth)} taken for ${project.classNamed(answer)}`,
      onclick: () => showCell(one, button) }, String(one.photos.length));
    if (`${truth} ${answer}` === open) again = [one, button];
    return h("td", { class: truth === answer ? "right" : "wrong" }, button);
  };
  const table = h("table", {},
    h("thead", {}, h("tr", {}, h("td"), ids.map((id) => h("th", { scope: "col", title: project.classNamed(id) }, h("span", {}, project.classNamed(id)))))),
    h("tbody", {}, ids.map((truth) => h("tr", {}, h("th", { scope: "row", title: project.classNamed(truth) }, project.classNamed(truth)), ids.map((answer) => cellOf(truth, answer))))));
  if (again) queueMicrotask(() => showCell(...again));
  return h("div", { class: "matrix", tabindex: "0", role: "region", "aria-label": "Confusion matrix" }, table);
}

function photoButton(project, photo) {
  return h("button", { "aria-label": `Open ${project.photos.get(photo)?.name ?? "photo"}`, onclick: () => openPhoto(project, photo) },
    h("img", { src: thumbnail(project.id, project.photo(photo)), alt: "", loading: "lazy" }));
}

function mislabelled(project, figures) {
  const items = figures.mislabelled.map((one) => h("div", { class: "item" },
    h("div", { class: "photos" }, photoButton(project, one.photo)),
    h("div", { class: "stack tight" },
      h("p", { class: "small" }, `${project.photos.get(one.photo)?.name ?? "A photo"} is labelled `, h("strong", {}, project.classNamed(one.class_id)),
        " and looks like ", h("strong", {}, project.classNamed(one.looks_like)), ` (${percent(one.probability)}).`),
      h("div", { class: "row" },
        h("button", { class: "button tiny main", onclick: () => project.move([one.photo], one.looks_like) }, `Move to ${project.classNamed(one.looks_like)}`),
        h("button", { class: "button tiny", onclick: () => project.remove([one.photo]) }, "Remove")))));
  return h("section", { class: "card stack", id: "mislabelled" }, h("h2", {}, "Probably mislabelled"),
    items.length ? h("div", { class: "items" }, items) : h("p", { class: "soft small" }, "No photo looks like another class than its own."));
}

const classOf = (project, photo) => project.photos.get(photo)?.class_id ?? null;

// The buttons that remove all photos of a group but one: the first, or the first of a class.
function keepers(project, group) {
  const keep = (kept, text) => h("button", { class: "button tiny", onclick: () => project.remove(group.photos.filter((photo) => photo !== kept)) }, text);
  if (!group.across) return keep(group.photos[0], "Keep only the first");
  const classes = [...new Set(group.photos.map((photo) => classOf(project, photo)))];
  return classes.map((klass) => keep(group.photos.find((photo) => classOf(project, photo) === klass), `Keep it in ${project.classNamed(klass)} only`));
}

function duplicates(project, figures) {
  const items = figures.duplicates.map((group) => h("div", { class: "item" },
    h("div", { class: "photos" }, group.photos.slice(0, 5).map((photo) => photoButton(project, photo))),
    h("div", { class: "stack tight" },
      h("p", { class: "small" }, group.across ? "Nearly the same photo is in more than one class, which no classifier can learn."
        : `${counted(group.photos.length, "photo")} of ${project.classNamed(classOf(project, group.photos[0]))} are nearly the same.`),
      h("div", { class: "row" }, keepers(project, group)))));
  return h("section", { class: "card stack", id: "duplicates" }, h("h2", {}, "Nearly the same"),
    items.length ? h("div", { class: "items" }, items) : h("p", { class: "soft small" }, "No two photos are nearly the same."));
}
