// The camera, where the browser has one: any number of photos for a class, or one to ask about.

import { dialog, h, note } from "./dom.js";
import { upload } from "./upload.js";

export async function camera(project, { klass = null, name = "", taken = () => {} } = {}) {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
  } catch (error) {
    note(`the camera cannot be used (${error.message}): allow it in the browser, or add photos from files`, { bad: true });
    return;
  }
  const video = h("video", { autoplay: true, playsinline: true, muted: true, "aria-label": "What the camera sees" });
  video.srcObject = stream;
  let count = 0;
  const counter = h("span", { class: "soft small", role: "status" });
  const shoot = h("button", { class: "button main", onclick: async () => {
    if (!video.videoWidth) return;
    const canvas = h("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.95));
    const file = new File([blob], `camera ${new Date().toISOString().slice(0, 19).replaceAll(":", ".")} ${++count}.jpg`, { type: "image/jpeg" });
    const added = await upload(project, [{ file, folder: null }], { klass });
    counter.textContent = `${count} taken`;
    taken(added, box);
  } }, "Take a photo (Space)");
  const box = dialog(klass === null ? "Ask the camera" : `Photos of ${name}`, video, h("div", { class: "row" }, shoot, counter));
  shoot.focus();
  box.addEventListener("close", () => stream.getTracks().forEach((track) => track.stop()));
}
