// Pictures on their way: chosen, pasted or dropped; made small enough for one frame; shown above
// the box until the message goes.

import { textOf } from "./conversation.js";
import { el, iconButton } from "./dom.js";

const MOST = 4;
const LONGEST_SIDE = 1568;
const LARGEST = 600_000;
const QUALITIES = [0.9, 0.75, 0.55, 0.35];

export class Attachments {
  #items = [];
  #tray = document.querySelector("#attachments");
  #input = document.querySelector("#attach-file");

  /** on: {changed(), failed(message)}. `form` is what one drops onto. */
  constructor({ form, box, on }) {
    this.on = on;
    document.querySelector("#attach").addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      this.#add([...this.#input.files]);
      this.#input.value = "";
    });
    box.addEventListener("paste", (event) => {
      const files = pictures(event.clipboardData);
      if (files.length) event.preventDefault();
      this.#add(files);
    });
    form.addEventListener("dragover", (event) => event.preventDefault());
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#add(pictures(event.dataTransfer));
    });
  }

  get isEmpty() {
    return this.#items.length === 0;
  }

  /** What is attached, as a frame wants it; the tray is empty afterwards. */
  take() {
    const taken = this.#items;
    this.#items = [];
    this.#draw();
    return taken;
  }

  async #add(files) {
    for (const file of files) {
      if (this.#items.length >= MOST) {
        this.on.failed(`A message takes ${MOST} pictures at most.`);
        break;
      }
      const url = await shrunk(file).catch(() => null);
      if (url === null) this.on.failed(`${file.name} cannot be read as a picture.`);
      else this.#items.push({ name: file.name.slice(0, 255), url });
    }
    this.#draw();
  }

  #draw() {
    this.#tray.replaceChildren(...this.#items.map((item) => this.#thumbnail(item)));
    this.#tray.hidden = this.isEmpty;
    this.on.changed();
  }

  #thumbnail(item) {
    const remove = iconButton("close", `Remove ${item.name}`, () => {
      this.#items = this.#items.filter((each) => each !== item);
      this.#draw();
    });
    return el("li", {}, el("img", { src: item.url, alt: textOf(item.name) }), remove);
  }
}

function pictures(transfer) {
  return [...(transfer?.files ?? [])].filter((file) => file.type.startsWith("image/"));
}

/** A data URL of at most LARGEST characters. Rejects what is no picture. */
async function shrunk(file) {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(picture.width, picture.height));
  const canvas = el("canvas");
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  const exact = canvas.toDataURL("image/png");
  if (exact.length <= LARGEST / 4) return exact;
  const tries = QUALITIES.map((quality) => () => canvas.toDataURL("image/jpeg", quality));
  for (const attempt of tries) {
    const url = attempt();
    if (url.length <= LARGEST / MOST) return url;
  }
  throw new Error("too large");
}
