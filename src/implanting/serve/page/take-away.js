// Take away: the classifier as files that answer as the page does.

import { post } from "./api.js";
import { h, note } from "./dom.js";

const KINDS = [
  ["classifier", "Classifier file", ["One safe file for Python and for the command line: ", h("code", {}, "implanting predict classifier.safetensors photo.jpg")]],
  ["onnx", "ONNX file", "Runs without PyTorch, in many programming languages, and answers as this page does; that is checked on your own photos first."],
  ["html", "Stand-alone page", "One file to open in any browser or to pass on: drop photos on it, and it answers as this page does, offline and without a server."],
];

export function takeAway(main, project) {
  main.replaceChildren(h("div", { class: "stack" }, h("h1", {}, "Take away"),
    h("div", { class: "thirds" }, KINDS.map(([kind, title, about]) => card(project, kind, title, about))),
    h("p", { class: "soft small" }, "Programs can use the service directly: ", h("a", { href: "/docs" }, "the API"), ".")));
  return { close() {} };
}

function card(project, kind, title, about) {
  const result = h("div", { class: "stack tight", role: "status" });
  const button = h("button", { class: "button main", onclick: async () => {
    button.disabled = true;
    result.replaceChildren(h("progress", { "aria-label": `Making the ${title}` }), h("p", { class: "small soft" }, kind === "classifier" ? "Writing …" : "Writing, then checking it on your photos … this takes some seconds."));
    try {
      const done = await post(project.path(`/exports/${kind}`));
      result.replaceChildren(
        h("a", { class: "button main start", href: `/api/projects/${project.id}/exports/${done.file}`, download: done.file }, `Download ${done.file}`),
        h("p", { class: "small" }, `${(done.bytes / 1e6).toFixed(1)} MB. Checked on ${done.photos} of your photos: ${done.same_answers} answers are the same, no probability differs by more than ${Math.max(1e-6, done.largest_difference).toFixed(6)}.`));
      result.querySelector("a").focus();
    } catch (error) {
      result.replaceChildren(h("p", { class: "small" }, error.message));
    }
    button.disabled = false;
    button.textContent = result.querySelector("a") ? "Make it again" : "Make it";
    button.classList.toggle("main", !result.querySelector("a"));
  } }, "Make it");
  return h("section", { class: "card stack", id: `export-${kind}` }, h("h2", {}, title), h("p", { class: "soft" }, about), h("div", {}, button), result);
}
