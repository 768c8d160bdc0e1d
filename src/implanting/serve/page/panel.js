// One photo with its answer, its heat map, the most similar examples, and buttons to label it.

import { get, heatMap, picture, thumbnail } from "./api.js";
import { h, percent } from "./dom.js";

const SHOWN = 8;  // classes with bars
let opacity = 0.65;  // kept from photo to photo

export function photoPanel(project, { labelled = () => {} } = {}) {
  let photo = null, wanted = null, asking = null, again = false;
  const fit = h("div", { class: "fit" }), image = h("img", { class: "picture", alt: "" }), heat = h("img", { class: "heat", alt: "", hidden: true });
  const slider = h("input", { type: "range", min: "0", max: "100", value: String(100 * opacity), "aria-label": "Opacity of the heat map",
    oninput: () => { opacity = slider.value / 100; heat.style.opacity = opacity; } });
  const where = h("span", {}, "Heat map");
  const verdict = h("p", { class: "verdict", "aria-live": "polite" }), remark = h("p", { class: "soft small" });
  const bars = h("div", { class: "bars", role: "group", "aria-label": "Probabilities; press a class to see where the photo looks like it" });
  const near = h("div", { class: "near" }), labels = h("div", { class: "labels" });
  const element = h("section", { class: "panel card stack", "aria-label": "Answer" },
    h("div", { class: "stack" }, h("div", { class: "stage" }, fit), h("label", { class: "slider" }, where, slider),
      h("div", { class: "stack tight similar" }, h("h3", {}, "Most similar examples"), near)),
    h("div", { class: "stack" }, h("div", {}, verdict, remark), bars,
      h("div", { class: "stack tight" }, h("h3", {}, "Its class"), labels)));
  fit.append(image, heat);
  heat.addEventListener("load", () => { heat.hidden = false; where.textContent = "Heat map"; });
  heat.addEventListener("error", () => { where.textContent = "No heat map"; });
  heat.style.opacity = opacity;

  const look = (id) => {
    for (const bar of bars.children) bar.setAttribute("aria-pressed", String(Number(bar.dataset.klass) === id));
    heat.hidden = true;
    if (id === null || photo === null || !project.learning.classifier) return;
    where.textContent = "Computing the heat map …";
    heat.src = heatMap(project.id, photo, id, project.learning.classifier);
  };

  const showLabels = () => {
    const own = project.photos.get(photo)?.class_id ?? null;
    labels.replaceChildren(...project.classes.map((one, place) => h("button", { class: one.id === own ? "button tiny main" : "button tiny",
      "aria-pressed": String(one.id === own), onclick: () => { project.move([photo], one.id); labelled(); } },
      place < 9 ? h("kbd", { "aria-hidden": "true" }, String(place + 1)) : null, place < 9 ? " " : null, one.name)),
      h("button", { class: "button tiny danger", onclick: () => { project.remove([photo]); labelled(); } }, "Remove"));
  };

  const clear = (title, text) => {
    verdict.textContent = title;
    verdict.classList.remove("none");
    remark.textContent = text;
    bars.replaceChildren();
    near.replaceChildren();
    heat.hidden = true;
    where.textContent = "Heat map";
  };

  const showAnswer = (answer) => {
    verdict.textContent = answer.answer;
    for (const part of [verdict, bars]) part.classList.toggle("none", answer.none_of_these);
    verdict.dataset.photo = photo;
    remark.textContent = remarkOn(project, photo, answer);
    bars.replaceChildren(...answer.probabilities.slice(0, SHOWN).map((one) => barOf(project, one, (id) => { wanted = id; look(id); })));
    near.replaceChildren(...answer.nearest.map((one) => exampleOf(project, one)));
    look(answer.probabilities.some((one) => one.class_id === wanted) ? wanted : answer.probabilities[0].class_id);
  };

  // One question at a time: what is learned while one is under way is asked about after it.
  const ask = async () => {
    const about = photo;
    if (photo === null) return;
    showLabels();
    if (project.learning.revision === null && project.learning.busy) { clear("", "Learning …"); return; }
    if (asking === about) { again = true; return; }
    asking = about;
    try {
      const answer = await get(project.path(`/photos/${about}/answer`));
      if (about === photo) showAnswer(answer);
    } catch (error) {
      if (about === photo) clear("", error.message);
    }
    if (asking === about) asking = null;
    if (again && about === photo) { again = false; ask(); }
  };
  const learned = () => ask();
  project.addEventListener("learned", learned);
  project.addEventListener("changed", showLabels);
  return {
    element,
    get photo() { return photo; },
    show(id) {
      element.hidden = id === null;
      if (id === photo || id === null) { photo = id; return; }
      const { name = "", width = 1, height = 1 } = project.photos.get(id) ?? {};
      photo = id;
      wanted = null;
      again = false;
      fit.style.setProperty("--ratio", width / height);
      image.src = picture(project.id, project.photo(id));
      image.alt = image.title = name;
      clear("…", "");
      ask();
    },
    close() { project.removeEventListener("learned", learned); project.removeEventListener("changed", showLabels); },
  };
}

function remarkOn(project, photo, answer) {
  if (answer.none_of_these) return "It fits no class well. If it had to be one of them:";
  const example = project.photos.get(photo)?.class_id ?? null;
  if (example === null) return "";
  const without = answer.left_out && ` Without it, the answer would be ${answer.left_out.name} (${percent(answer.left_out.probability)}).`;
  return `This photo is an example of ${project.classNamed(example)}, so this answer is no test.${without ?? ""}`;
}

function barOf(project, one, look) {
  const place = project.classes.findIndex((other) => other.id === one.class_id);
  const fill = h("i");
  fill.style.width = `${100 * one.probability}%`;
  return h("button", { class: "bar", "aria-pressed": "false", data: { klass: one.class_id }, onclick: () => look(one.class_id),
    "aria-label": `${one.name} ${percent(one.probability)}; show where` },
    h("span", { class: "soft small" }, place >= 0 && place < 9 ? String(place + 1) : ""), h("span", { class: "name" }, one.name),
    h("span", { class: "track" }, fill), h("span", { class: "value" }, percent(one.probability)));
}

function exampleOf(project, one) {
  const name = project.classNamed(project.photos.get(one.photo)?.class_id ?? null);
  return h("figure", {}, h("img", { src: thumbnail(project.id, project.photo(one.photo)), alt: `An example of ${name}`, loading: "lazy" }),
    h("figcaption", {}, name));
}
