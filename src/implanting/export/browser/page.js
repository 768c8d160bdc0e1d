// A classifier in one file: the browser decodes a photo, resizing.js, which precedes this script, computes the pixels that
// Pillow would compute, and ONNX Runtime computes the answer. Nothing is loaded or sent.

const $ = (name) => document.getElementById(name);
const facts = JSON.parse($("facts").textContent);
const SHOWN = 5;  // classes of each answer

function element(tag, given = {}, ...children) {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...children);
  return made;
}

function bar(share) {
  const made = element("i");
  made.style.backgroundSize = `${100 * share}% 100%`;  // set by script, which the security policy allows
  return made;
}

function percent(probability) {
  const rounded = Math.round(100 * probability);
  if (rounded === 0 && probability > 0) return "< 1 %";
  return rounded === 100 ? "> 99 %" : `${rounded} %`;
}

// The parts of this file

async function part(name) {
  const letters = atob($(name).textContent);
  $(name).remove();
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function openSession() {
  const source = URL.createObjectURL(new Blob([await part("runtime")], { type: "text/javascript" }));
  const runtime = await import(source);
  URL.revokeObjectURL(source);
  runtime.env.wasm.numThreads = 1;  // more threads need HTTP headers, and a file has none
  runtime.env.wasm.wasmBinary = await part("machine");
  const session = await runtime.InferenceSession.create(new Uint8Array(await part("graph")));
  return { runtime, session };
}

// A photo -> the pixels that the network sees

async function isJpeg(file) {
  const [first, second, third] = new Uint8Array(await file.slice(0, 3).arrayBuffer());
  return first === 0xff && second === 0xd8 && third === 0xff;
}

async function seen(file) {
  const photo = await decoded(file);
  return resized(await isJpeg(file) ? drafted(photo, facts.draft_size) : photo, facts.image_size);
}

async function decoded(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, bitmap.width, bitmap.height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

// Answers

const ready = openSession();
const given = [];

async function ask(file) {
  const { runtime, session } = await ready;
  const pixels = await seen(file);
  const images = new runtime.Tensor("uint8", new Uint8Array(pixels.buffer), [1, facts.image_size, facts.image_size, 3]);
  const { probabilities, open_set_score: score } = await session.run({ images });
  const ranking = [...probabilities.data].map((probability, place) => ({ name: facts.classes[place], probability }));
  ranking.sort((one, other) => other.probability - one.probability);
  const none = facts.threshold !== null && score.data[0] > facts.threshold;
  return { name: file.name, answer: none ? facts.unknown : ranking[0].name, none, ranking };
}

function answered({ answer, none, ranking }) {
  return [element("span", { className: none ? "verdict none" : "verdict", textContent: answer }),
    ...(none ? [element("span", { className: "soft", textContent: "It fits no class well. If it had to be one of them:" })] : []),
    ...ranking.slice(0, SHOWN).map(({ name, probability }) => element("div", { className: none ? "bar none" : "bar" },
      element("span", { textContent: name, title: name }),
      bar(probability),
      element("span", { textContent: percent(probability) })))];
}

async function take(files) {
  for (const [place, file] of [...files].entries()) {
    say(files.length > 1 ? `Photo ${place + 1} of ${files.length} …` : "Looking at the photo …", true);
    const picture = element("img", { src: URL.createObjectURL(file), alt: "" });
    const item = element("li", {}, picture, element("span", { className: "name", textContent: file.name, title: file.name }));
    $("answers").prepend(item);
    try {
      const answer = await ask(file);
      given.push(answer);
      item.append(...answered(answer));
    } catch (problem) {
      picture.remove();
      item.append(element("span", { className: "wrong", textContent: problem.name === "InvalidStateError" || problem.name === "EncodingError"
        ? "This browser cannot read it as a picture." : `It could not be classified: ${problem.message}` }));
    }
    await new Promise((done) => setTimeout(done));  // so that the answer is drawn before the next photo
  }
  $("tools").hidden = !$("answers").children.length;
  say("");
}

function say(text, busy = false) {
  $("status").textContent = text;
  $("progress").hidden = !busy;
}

// A cell of a table; an apostrophe keeps spreadsheets from taking a name for a formula.
function cell(value) {
  const text = /^[=+\-@\t\r]/.test(value) && typeof value === "string" ? `'${value}` : String(value);
  return `"${text.replaceAll('"', '""')}"`;
}

function table() {
  const rows = given.map(({ name, answer, ranking }) => {
    const known = new Map(ranking.map((one) => [one.name, one.probability]));
    return [name, answer, ranking[0].probability.toFixed(4), ...facts.classes.map((one) => known.get(one).toFixed(4))];
  });
  const head = ["photo", "answer", "probability", ...facts.classes];
  return `\ufeff${[head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

function listen() {
  $("choose").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", async () => {
    await enqueue([...$("files").files]);
    $("files").value = "";
  });
  addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  addEventListener("dragleave", () => $("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    enqueue([...event.dataTransfer.files]);
  });
  addEventListener("paste", (event) => enqueue([...event.clipboardData.files]));
  $("clear").addEventListener("click", () => {
    given.length = 0;
    for (const picture of document.querySelectorAll("#answers img")) URL.revokeObjectURL(picture.src);
    $("answers").replaceChildren();
    $("tools").hidden = true;
    $("choose").focus();
  });
  $("csv").addEventListener("click", () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([table()], { type: "text/csv" })), download: "answers.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

let queue = ready;
function enqueue(files) {
  queue = queue.then(() => take(files));
  return queue;
}

$("classes").textContent = `Tells apart ${facts.classes.join(", ")}${facts.threshold === null ? "." : `; what fits none of them is “${facts.unknown}”.`}`;
try {
  await ready;
  listen();
  $("choose").disabled = false;
  say("");
} catch (problem) {
  say(`The classifier does not run in this browser (${problem.message}): use a current Firefox, Chrome, Edge or Safari.`);
}
