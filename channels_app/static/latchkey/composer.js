// The message box: grows with its text, keeps drafts, sends by a key or the button.

import { Attachments } from "./attachments.js";
import { focusBox, isPhone, isSending, onPress } from "./dom.js";
import { tabStorage } from "./storage.js";
import { filled, gettext, LOCALE } from "./texts.js";

const TALLEST = 240;
// A text that is whole in the box needs no page keys: they are the conversation's.
const PAGES = { PageUp: -1, PageDown: 1 };

export class Composer {
  #form = document.querySelector("#composer");
  #text = document.querySelector("#composer-text");
  #send = document.querySelector("#send");
  #stop = document.querySelector("#stop");
  #chat = null;
  // Per user: another user of this tab must not read them.
  #drafts = `latchkey.draft.${document.body.dataset.person}.`;

  /** on: {send(text, files), stop(), recall(), page(direction), failed(message)}. */
  constructor(on) {
    this.on = on;
    this.busy = false;
    this.attachments = new Attachments({
      box: this.#text,
      on: { changed: () => this.#changed(), failed: on.failed },
    });
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    if (isPhone()) this.#text.removeAttribute("aria-describedby");
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("paste", (event) => this.#pasted(event));
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("dragover", (event) => isLinkBeside(event) && event.preventDefault());
    addEventListener("drop", (event) => this.#dropped(event));
    this.#stop.addEventListener("click", onPress(() => this.on.stop()));
    // Who presses one of them goes on writing, and the keyboard of a phone stays where it is.
    for (const button of [this.#send, this.#stop]) button.addEventListener("mousedown", (event) => event.preventDefault());
    const chat = document.body.dataset.session || null;
    if (this.#text.value) this.#keepTyped(chat ?? "new");
    this.open(chat);
  }

  /** Whoever types before this script runs keeps it, after the draft of the chat. */
  #keepTyped(place) {
    const before = tabStorage.getItem(this.#drafts + place)?.trimEnd();
    const typed = this.#text.value;
    tabStorage.setItem(this.#drafts + place, before ? `${before}\n${typed}` : typed);
  }

  /** Write for this chat now: its draft comes back; where only the chat loads anew, the caret stays. */
  open(chat) {
    const place = chat ?? "new";
    if (place === this.#chat) return;
    this.#chat = place;
    const draft = tabStorage.getItem(this.#drafts + this.#chat) ?? "";
    if (this.#text.value !== draft) this.#text.value = draft; // else an input method may be composing it
    this.attachments.open(this.#chat);
    this.#changed();
  }

  /** The chat got its session: what is typed belongs to it. */
  rename(chat) {
    tabStorage.removeItem(this.#drafts + this.#chat);
    this.#chat = chat;
    this.attachments.rename(chat);
    this.#changed();
  }

  /** Put text (and files) into the box; false, and nothing is done, when something is there. */
  offer(text, files = []) {
    if (this.#text.value.trim() !== "" || !this.attachments.isEmpty) return false;
    this.#text.value = text;
    this.attachments.put(files);
    this.#changed();
    this.focus();
    return true;
  }

  /** Keep what was not sent in the draft of a chat (null: a new one), after what it holds. */
  keep(chat, text, files = []) {
    const place = chat ?? "new";
    this.attachments.put(files, place);
    if (place === this.#chat) {
      this.add(text);
      return;
    }
    const name = this.#drafts + place;
    const before = tabStorage.getItem(name);
    tabStorage.setItem(name, before ? `${before}\n${text}` : text);
  }

  /** The chat is gone: keep what is in its box for a new one. */
  leave() {
    const text = this.#text.value;
    this.#text.value = "";
    if (text) this.keep(null, text);
    if (!this.attachments.isBusy) this.attachments.put(this.attachments.take(), "new");
  }

  /** Add text and files (of the system) to what is in the box. */
  add(text, files = []) {
    const before = this.#text.value.trimEnd();
    this.#text.value = before && text ? `${before}\n${text}` : before || text;
    this.#changed();
    this.attachments.add(files);
    this.focus();
  }

  focus() {
    focusBox();
  }

  /** Whether an answer is being made: then there is something to stop. */
  setBusy(busy) {
    this.busy = busy;
    this.#changed();
  }

  #submit() {
    const text = this.#text.value;
    if (this.attachments.isBusy) {
      this.on.failed(this.attachments.problem || gettext("The files are not uploaded yet. Send the message in a moment."));
      return;
    }
    if (text.trim() === "" && this.attachments.isEmpty) return;
    if (this.#isTooLong(text.length)) return;
    this.#text.value = "";
    const files = this.attachments.take();
    this.#changed();
    this.on.send(text, files);
    this.focus();
  }

  /** A text that the box would cut at its limit, without a word, is not pasted at all. */
  #pasted(event) {
    const { value, selectionStart, selectionEnd } = this.#text;
    const kept = value.length - (selectionEnd - selectionStart);
    const pasted = (event.clipboardData?.getData("text/plain") ?? "").replaceAll("\r\n", "\n");
    if (pasted && this.#isTooLong(kept + pasted.length)) event.preventDefault();
  }

  /** The browser would go to a link that is dropped beside the box. */
  #dropped(event) {
    if (!isLinkBeside(event)) return;
    event.preventDefault();
    const lines = event.dataTransfer.getData("text/uri-list").split(/\r?\n/);
    this.add(lines.filter((line) => line && !line.startsWith("#")).join("\n"));
  }

  #isTooLong(length) {
    const most = this.#text.maxLength;
    if (most < 0 || length <= most) return false;
    this.on.failed(filled(gettext("The text is too long: at most {count} characters."), { count: most.toLocaleString(LOCALE) }));
    return true;
  }

  #changed() {
    const text = this.#text.value;
    const empty = text.trim() === "" && this.attachments.isEmpty;
    this.#send.disabled = empty || this.attachments.isBusy;
    const isStopped = this.#stop === document.activeElement && !this.busy;
    this.#stop.hidden = !(this.busy && empty);
    this.#send.hidden = !this.#stop.hidden;
    if (isStopped) this.focus();
    this.#text.rows = Math.min(10, Math.max(1, text.split("\n").length));
    if (!CSS.supports("field-sizing", "content")) this.#grow();
    if (text) tabStorage.setItem(this.#drafts + this.#chat, text);
    else tabStorage.removeItem(this.#drafts + this.#chat);
  }

  #grow() {
    const lines = Math.ceil(Math.min(TALLEST, this.#text.scrollHeight) / 24);
    this.#text.rows = Math.max(this.#text.rows, lines);
  }

  #key(event) {
    if (event.key === "ArrowUp" && this.#text.value === "" && !event.shiftKey) {
      event.preventDefault();
      this.on.recall();
      return;
    }
    if (isPage(event) && this.#text.scrollHeight <= this.#text.clientHeight) {
      event.preventDefault();
      this.on.page(PAGES[event.key]);
      return;
    }
    if (!isSending(event)) return;
    event.preventDefault();
    this.#submit();
  }
}

// With a key beside it, it selects, or is the browser's, whose tabs it may turn.
function isPage({ key, shiftKey, ctrlKey, altKey, metaKey, isComposing }) {
  return Object.hasOwn(PAGES, key) && !(shiftKey || ctrlKey || altKey || metaKey || isComposing);
}

function isLinkBeside({ dataTransfer, target }) {
  const types = [...(dataTransfer?.types ?? [])];
  return types.includes("text/uri-list") && !types.includes("Files") && !target.closest?.("input, textarea, [contenteditable]");
}
