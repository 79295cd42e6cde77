// Attachments: chosen, pasted or dropped; shown above the message box until the message is sent.
// Pictures are made small enough for one frame; everything else is uploaded at once, with a bar.

import { textOf } from "./conversation.js";
import { el, focusBox, icon, iconButton, onPress } from "./dom.js";
import { tabStorage } from "./storage.js";
import { filled, gettext, ngettext } from "./texts.js";

const MOST = 4;
const LONGEST_SIDE = 1568;
const LARGEST = 600_000;
const QUALITIES = [0.9, 0.75, 0.55, 0.35];

export class Attachments {
  #chat = "new";
  #items = [];
  #all = new Map(); // of each chat
  // Per user: another user of this tab must not send them.
  #key = `latchkey.files.${document.body.dataset.person}.`;
  #tray = document.querySelector("#attachments");
  #input = document.querySelector("#attach-file");

  /** on: {changed(), failed(message)}. Files may be dropped anywhere on the page. */
  constructor({ box, on }) {
    this.on = on;
    document.querySelector("#attach").addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      this.add([...this.#input.files]);
      this.#input.value = "";
      focusBox();
    });
    box.addEventListener("paste", (event) => {
      if (!event.clipboardData?.files.length || isText(event.clipboardData)) return;
      event.preventDefault();
      this.#addFrom(event.clipboardData);
    });
    // The browser asks first: the page keeps no file that the gateway does not have.
    addEventListener("beforeunload", (event) => {
      if (!this.areKept || !tabStorage.isStored) event.preventDefault();
    });
    const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    addEventListener("dragover", (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) document.body.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      if (!holdsFiles(event)) return;
      event.preventDefault();
      this.#addFrom(event.dataTransfer);
    });
  }

  /** Whether something is still being read or uploaded. */
  get isBusy() {
    return !this.#items.every(isWhole);
  }

  /** Why one could not be uploaded; "" where none failed. */
  get problem() {
    return this.#items.find((item) => item.problem)?.problem ?? "";
  }

  get isEmpty() {
    return this.#items.length === 0;
  }

  /** Whether a reload would find those of all chats. */
  get areKept() {
    return [...this.#all.values()].flat().every(isWhole);
  }

  /** Show those of this chat: what is attached in one does not go with the message of another. */
  open(chat) {
    this.#chat = chat;
    this.#items = this.#itemsOf(chat);
    this.#draw();
  }

  /** The chat got its session. */
  rename(chat) {
    this.#all.delete(this.#chat);
    tabStorage.removeItem(this.#key + this.#chat);
    this.#all.set(chat, this.#items);
    this.#chat = chat;
    this.#keep();
  }

  /** Return the attachments in the form of a frame, and empty the tray. */
  take() {
    const taken = this.#items.map(({ name, url, id }) => (id ? { name, id } : { name, url }));
    this.#items.length = 0;
    this.#draw();
    return taken;
  }

  /** Restore attachments, [{url, name}], of this chat or of another. */
  put(files, chat = this.#chat) {
    this.#itemsOf(chat).push(...files);
    this.#draw();
  }

  /** Add what was dropped or pasted: a folder cannot be read. */
  #addFrom({ files, items }) {
    const entries = [...items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.());
    const isFile = (_file, at) => !entries[at]?.isDirectory;
    if (![...files].every(isFile)) this.on.failed(gettext("A folder cannot be attached. Choose the files in it."));
    this.add([...files].filter(isFile));
  }

  /** Add files of the system. */
  async add(files) {
    const items = [];
    for (const file of files) {
      if (this.#items.length >= MOST) {
        this.on.failed(filled(ngettext("A message can have at most {count} file.", "A message can have at most {count} files.", MOST), { count: MOST }));
        break;
      }
      items.push({ name: file.name.slice(0, 255), file });
      this.#items.push(items.at(-1));
    }
    this.#draw();
    for (const item of items) await this.#read(item); // one by one: a photo takes much memory
  }

  async #read(item) {
    const url = item.file.type.startsWith("image/") ? await shrunk(item.file).catch(() => null) : null;
    if (item.isGone) return; // removed meanwhile
    if (url === null) this.#upload(item);
    else item.url = url;
    this.#draw();
  }

  #upload(item) {
    item.problem = "";
    const bar = el("progress", { max: 100, value: 0, "aria-label": filled(gettext("Uploading {name}"), item) });
    item.bar = bar;
    item.upload = uploading(item.file, item.name, (percent) => (bar.value = percent));
    item.upload.done.then(
      (id) => {
        item.id = id;
        item.upload = null;
        this.#draw();
      },
      ({ message, isPassing }) => {
        item.upload = null;
        item.problem = message;
        if (isPassing) this.#draw();
        else this.#remove(item);
        if (message) this.on.failed(message);
      },
    );
  }

  #remove(item) {
    item.isGone = true;
    item.upload?.abort();
    for (const items of this.#all.values()) {
      if (items.includes(item)) items.splice(items.indexOf(item), 1);
    }
    this.#draw();
  }

  #itemsOf(chat) {
    if (!this.#all.has(chat)) this.#all.set(chat, JSON.parse(tabStorage.getItem(this.#key + chat) ?? "[]"));
    return this.#all.get(chat);
  }

  /** Keep what can be sent over a reload. */
  #keep() {
    for (const [chat, items] of this.#all) {
      const whole = items.filter(isWhole).map(({ name, url, id }) => ({ name, url, id }));
      if (whole.length) tabStorage.setItem(this.#key + chat, JSON.stringify(whole));
      else tabStorage.removeItem(this.#key + chat);
    }
  }

  #draw() {
    this.#keep();
    const { activeElement } = document;
    this.#tray.replaceChildren(...this.#items.map((item) => this.#shown(item)));
    this.#tray.hidden = this.isEmpty;
    if (this.#tray.contains(activeElement)) activeElement.focus();
    this.on.changed();
  }

  #shown(item) {
    const remove = () => {
      this.#remove(item);
      focusBox(); // the button is gone
    };
    item.button ??= iconButton("close", filled(gettext("Remove {name}"), item), onPress(remove));
    if (item.url) return el("li", {}, el("img", { src: item.url, alt: textOf(item.name) }), item.button);
    const name = el("span.file-name", {}, textOf(item.name));
    const state = item.upload ? item.bar : item.problem ? this.#again(item) : null;
    return el("li.file", {}, icon(item.problem ? "warning" : "clip"), name, state, item.button);
  }

  #again(item) {
    const onclick = () => {
      this.#upload(item);
      this.#draw();
      focusBox(); // the button is gone
    };
    const label = filled(gettext("Try again: {name}"), item);
    return el("button.button", { type: "button", "aria-label": label, onclick }, gettext("Try again"));
  }
}

function isWhole({ url, id }) {
  return Boolean(url || id);
}

// Office programs add a picture of a copied text to it; a copied picture has no plain text.
function isText(clipboard) {
  return clipboard.types.includes("text/html") && clipboard.getData("text/plain").trim() !== "";
}

/** An upload in progress: {done: the id, abort()}. The error: {message, isPassing}; the message is shown to the
 * user, and the upload may be tried again where it is passing. */
function uploading(file, name, onProgress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress((100 * event.loaded) / event.total);
    });
    request.addEventListener("load", () => {
      if (request.status === 201 && request.response?.id) resolve(request.response.id);
      else reject({ message: `${name}: ${request.response?.error ?? gettext("The upload failed.")}`, isPassing: isPassing(request.status) });
    });
    request.addEventListener("error", () => reject({ message: filled(gettext("{name} could not be uploaded."), { name }), isPassing: true }));
    request.addEventListener("abort", () => reject({ message: "", isPassing: false }));
  });
  request.open("POST", `/files?name=${encodeURIComponent(name)}`);
  request.responseType = "json";
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.send(file);
  return { done, abort: () => request.abort() };
}

function isPassing(status) {
  return status >= 500 || status === 429 || status === 408;
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
  putOnWhite(canvas);
  for (const quality of QUALITIES) {
    const url = canvas.toDataURL("image/jpeg", quality);
    if (url.length <= LARGEST / MOST) return url;
  }
  throw new Error("too large");
}

/** JPEG has no transparency: what shows through would be black, as most drawings on it are. */
function putOnWhite(canvas) {
  const context = canvas.getContext("2d");
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
}
