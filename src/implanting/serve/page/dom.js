// Elements without HTML: every text goes in as text, so that a class called <b> stays a class called <b>.

export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (selector) => document.querySelector(selector);

export function percent(probability) {
  const rounded = Math.round(100 * probability);
  if (rounded === 0 && probability > 0) return "< 1 %";
  if (rounded === 100) return "> 99 %";  // nothing is certain, and float32 rounds
  return `${rounded} %`;
}

export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// A message. The action of a note that is marked `passing` holds only until the next change: see `dropPassing`.
export function note(text, { bad = false, action = null, passing = false, seconds = bad ? 12 : 5 } = {}) {
  const line = h("div", { class: bad ? "note bad" : "note", role: bad ? "alert" : null, data: passing ? { passing: "1" } : {} }, h("span", {}, text));
  const close = () => line.remove();
  if (passing) dropPassing();
  if (action) line.append(h("button", { class: "link", onclick: () => { close(); action.run(); } }, action.name));
  else line.append(h("button", { class: "link", "aria-label": "Close this message", onclick: close }, "✕"));
  $("#notes").append(line);
  while ($("#notes").children.length > 4) $("#notes").firstChild.remove();
  setTimeout(close, 1000 * seconds);
}

// "Undo" takes the latest change back, so it may not remain on a note about an earlier one.
export const dropPassing = () => { for (const line of document.querySelectorAll("#notes [data-passing]")) line.remove(); };

export function dialog(title, ...content) {
  const box = h("dialog", { "aria-label": title },
    h("div", { class: "stack" }, h("div", { class: "row spread" }, h("h2", {}, title),
      h("button", { class: "icon", "aria-label": "Close", onclick: () => box.close() }, "✕")), ...content));
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
  return box;
}

export function typing(event) {
  const target = event.target;
  return target instanceof HTMLInputElement && target.type !== "range" || target instanceof HTMLTextAreaElement
    || target instanceof HTMLSelectElement;
}
