// One turn on the page: the message, and the growing answer.

import { textOf } from "./conversation.js";
import { el, icon, iconButton, onPress, ownUrl } from "./dom.js";
import { copyButton } from "./live.js";
import { errorBlock, imageSource, viewOf } from "./messages.js";
import { reminderButtons } from "./reminder.js";
import { around, filled, gettext, LOCALE } from "./texts.js";
import { timeNode } from "./time.js";

const LONG_MESSAGE = 900;
const RECORDING = /\.(aac|flac|m4a|mp3|og[ag]|opus|wav)$/i;

export class Turn {
  #views = new Map();
  #parts = el("div.parts");
  #status = el("div.status");
  #foot = el("div.answer-foot");
  #heading = el("h2.visually-hidden", {}, gettext("The assistant answers"));

  /** `said`: {text, at, media} or null. `on`: {retry, edit, rate, showProgress}. */
  constructor({ said, clientId = null, on }) {
    this.said = said;
    this.clientId = clientId;
    this.isStopping = false;
    this.run = null;
    this.on = on;
    this.answer = el("article.answer", {}, this.#heading, this.#parts, this.#status, this.#foot);
    this.node = el("section.turn", {}, said ? bubble(said, () => on.edit(said)) : null, this.answer);
    this.#foot.hidden = true;
  }

  /** Show the answer of `run` here, from now on. */
  bind(run) {
    this.run = run;
    this.node.dataset.run = run.id;
    for (const key of run.parts.keys()) this.update(key);
    if (run.final === null) this.wait();
    else this.finish();
  }

  /** Show the message's status until a run has it. */
  pending(words) {
    this.#showStatus(words, null);
  }

  /** Part `key` of the run has changed. */
  update(key) {
    const part = this.run.parts.get(key);
    const view = this.#views.get(key);
    if (view && view.type === part.type) view.show(part);
    else this.#replace(key, view, part);
    this.wait();
  }

  #replace(key, old, part) {
    const toolState = (id) => this.run.toolState(id);
    const { rate } = this.on;
    const thumbs = this.run.final?.thumbs ?? {};
    const view = viewOf(part, { rate, runId: this.run.id, toolState, thumbs });
    if (view === null) {
      old?.node.remove();
      this.#views.delete(key);
      return;
    }
    for (const other of this.#views.values()) if (other !== old) other.rest?.();
    if (old) old.node.replaceWith(view.node);
    else this.#parts.append(view.node);
    this.#views.set(key, view);
  }

  /** A tool has ended, or all have. */
  showTools() {
    for (const [key, view] of this.#views) {
      if (view.type === "tool_call" && this.run.parts.has(key)) view.show(this.run.parts.get(key));
    }
  }

  /** The line under the answer while it is made. */
  wait() {
    if (this.run.final !== null) return;
    this.answer.setAttribute("aria-busy", "true");
    const { progress, ended } = this.run;
    const last = [...this.#views.values()].at(-1);
    if (progress && this.on.showProgress()) this.#showStatus(progress.message || gettext("Working…"), progress.percent);
    else if (last?.type === "text" && !progress && !ended) this.#status.replaceChildren();
    else this.#showStatus(this.#views.size || progress ? gettext("Working…") : "", null);
  }

  /** The answer is complete: the server's rendering in, spinner out, buttons in. */
  finish() {
    const final = this.run.final;
    this.#status.replaceChildren();
    this.answer.removeAttribute("aria-busy");
    this.#settleTexts(final);
    if (this.language) for (const node of this.#parts.querySelectorAll(".prose")) node.lang = this.language;
    this.showTools();
    for (const [key, view] of this.#views) {
      view.rest?.();
      if (!this.run.parts.has(key)) view.node.remove();
    }
    this.#showImages(final);
    this.#showFiles(final);
    this.#showEnd(final);
    if (final.reminder) this.#parts.append(reminderButtons(final.reminder, this.run.id));
    this.#fillFoot(final);
    this.#heading.textContent = final.from_agent ? gettext("An agent sent this") : gettext("The assistant answered");
    if (final.from_agent) this.#heading.after(el("p.from-agent", {}, icon("tool"), gettext("From an agent")));
  }

  #settleTexts(final) {
    const texts = [...this.#views].filter(([, view]) => view.type === "text");
    const html = final.html_of ?? {};
    for (const [key, view] of texts) if (typeof html[key] === "string") view.settle(html[key]);
    if (typeof final.html !== "string" || final.html === "") return;
    if (texts.length === 1 && !(texts[0][0] in html)) texts[0][1].settle(final.html);
    if (texts.length === 0 && textOf(final.text) && !this.#hasError(final)) {
      this.#replace("final", undefined, { type: "text", props: {}, html: final.html });
    }
  }

  #hasError(final) {
    return Boolean(textOf(final.error)) && final.text === final.error;
  }

  /** The pictures of an answer whose messages are gone; else each is one of the messages. */
  #showImages(final) {
    if ([...this.run.parts.values()].some((part) => part.type === "image")) return;
    const images = Array.isArray(final.images) ? final.images : [];
    for (const address of images) {
      const source = imageSource(textOf(address));
      if (source !== null) this.#parts.append(viewOf({ type: "image", props: { url: source } }, {}).node);
    }
  }

  #showFiles(final) {
    const files = Array.isArray(final.files) ? final.files : [];
    this.#parts.append(...files.map(fileCard).filter(Boolean));
    const ids = new Set(files.map((file) => textOf(file?.id)));
    for (const link of this.#parts.querySelectorAll(".prose a")) {
      const isBare = link.href.startsWith(link.textContent.replace(/…$/, "")); // long ones are cut
      if (isBare && ids.has(fileOf(link.href))) removeLine(link, this.#parts);
    }
  }

  #showEnd(final) {
    const broken = [...this.#views.values()].some((view) => view.type === "error");
    if (final.interrupted) this.#parts.append(el("p.stopped", {}, gettext("This answer was stopped.")));
    else if (textOf(final.error) && !broken) this.#parts.append(errorBlock({ message: final.error }));
    const by = textOf(final.answered_by);
    if (by) this.#parts.append(el("p.answered-by", {}, ...around(gettext("Answered by {name}"), "name", el("bdi", {}, by))));
  }

  #fillFoot(final) {
    const copy = this.run.text() ? copyButton(gettext("Copy the answer"), () => this.run.text()) : null;
    const again = this.said
      ? iconButton("retry", gettext("Ask again"), onPress(() => this.on.retry(this.said)))
      : null;
    this.#foot.replaceChildren(...[copy, again, timeNode(final.at)].filter(Boolean));
    this.#foot.hidden = false;
  }

  /** Show why the message was refused, and say it; its text is kept. */
  refuse(message) {
    this.#status.replaceChildren();
    this.#parts.append(el("div", { role: "alert" }, errorBlock({ message })));
    this.node.classList.add("refused");
  }

  #showStatus(words, percent) {
    const spinner = el("span.spinner", { "aria-hidden": "true" }, el("i"), el("i"), el("i"));
    const bar = percent === null ? null : el("progress", { max: 100, value: percent, "aria-label": words });
    const line = el("span.status-words", {}, words);
    this.#status.replaceChildren(spinner, line, ...(bar ? [bar] : []));
  }

  /** The language of the answer; "" where it is not known. */
  get language() {
    return textOf(this.run?.final?.language);
  }

  /** The announcement for screen readers when the answer is complete. */
  spoken() {
    const said = this.answer.querySelectorAll(".from-agent, .prose, .error-block > div > p, .stopped");
    return Array.from(said, (node) => node.innerText).join("\n").slice(0, 2000);
  }
}

function bubble(said, edit) {
  const text = said.text ? el("p.plain", {}, said.text) : null;
  const heading = el("h2.visually-hidden", {}, said.is_scheduled ? gettext("Your schedule asked") : gettext("You said"));
  const children = [heading, said.is_scheduled ? scheduledLine() : null, ...attachments(said.media), text];
  if (said.text.length > LONG_MESSAGE) children.push(foldButton(text));
  const foot = el("div.said-foot", {}, timeNode(said.at), ...(text ? saidButtons(said, edit) : []));
  return el("article.said", {}, el("div.bubble", {}, ...children), foot);
}

/** Not the person has asked this, but a schedule of theirs. */
function scheduledLine() {
  return el("p.scheduled", {}, "⏰ ", el("a", { href: "/reminders" }, gettext("Scheduled")));
}

function saidButtons(said, edit) {
  return [copyButton(gettext("Copy the message"), () => said.text), iconButton("pencil", gettext("Edit and send again"), edit)];
}

function foldButton(text) {
  text.classList.add("folded");
  const button = el("button.fold", { type: "button", "aria-expanded": "false" }, gettext("Show more"));
  button.addEventListener("click", () => {
    const folded = text.classList.toggle("folded");
    button.textContent = folded ? gettext("Show more") : gettext("Show less");
    button.setAttribute("aria-expanded", String(!folded));
  });
  return button;
}

/** The id of the file that a signed link is to, or undefined. */
function fileOf(address) {
  return ownUrl(address)?.searchParams.get("token")?.split(".")[0];
}

/** Remove a bare address of a file that has a card: its line, or all that holds nothing else. */
function removeLine(link, parts) {
  let node = link;
  while (node.parentElement !== parts && node.parentElement.textContent.trim() === link.textContent) node = node.parentElement;
  if (!isLine(node)) return; // a sentence needs its address
  if (node.previousElementSibling?.tagName === "BR") node.previousElementSibling.remove();
  node.remove();
}

/** Whether nothing else is in the line of a part of a text; a block is one. */
function isLine(node) {
  if (!node.parentElement.matches(":is(p,li,td,th)")) return true;
  const all = [...node.parentElement.childNodes];
  const nodes = all.map((each) => (each.nodeName === "BR" ? "\n" : each.textContent));
  const at = all.indexOf(node);
  return /(?:^|\n)[^\S\n]*$/.test(nodes.slice(0, at).join("")) && /^[^\S\n]*(?:\n|$)/.test(nodes.slice(at + 1).join(""));
}

/** A finished file: its name, size, and a link that opens or saves it. */
function fileCard(file) {
  if (!textOf(file?.id)) return null;
  // Not the signed link: that one expires, and here the person is signed in.
  const address = `/files/${encodeURIComponent(textOf(file.id))}`;
  const size = sizeOf(Number(file.size));
  const kind = textOf(file.name).split(".").at(-1).slice(0, 5).toUpperCase();
  const name = el("span.file-name", {}, textOf(file.name));
  const more = el("span.file-more", {}, [kind, size].filter(Boolean).join(" · "));
  return el(
    "a.file-card",
    { href: address, target: "_blank", rel: "noopener", "aria-label": filled(gettext("Open {name}"), { name: textOf(file.name) }) },
    icon("clip"), el("span", {}, name, more), icon("down"),
  );
}

function sizeOf(bytes) {
  if (!Number.isFinite(bytes) || bytes <= 0) return "";
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} KB`;
  return `${(bytes / 1e6).toLocaleString(LOCALE, { minimumFractionDigits: 1, maximumFractionDigits: 1 })} MB`;
}

function attachments(media) {
  return (Array.isArray(media) ? media : []).flatMap((item) => {
    const source = imageSource(textOf(item?.url) || "data:");
    const name = textOf(item?.name) || gettext("attachment");
    return source ? el("img.attached", { src: source, alt: name }) : storedFile(item, name);
  });
}

/** A link to a file that was sent, and the player of a recording. */
function storedFile(item, name) {
  const id = textOf(item?.file ?? item?.id);
  const src = `/files/${encodeURIComponent(id)}`;
  const line = el("p.attached", {}, icon("clip"), id ? el("a", { href: src, target: "_blank", rel: "noopener" }, name) : name);
  // One that was just sent has no kind yet.
  if (!id || !(item.kind === "audio" || RECORDING.test(name))) return line;
  const fails = ({ target }) => target.replaceWith(el("p.facts", {}, gettext("This medium cannot be shown.")));
  return [line, el("audio", { src, controls: true, preload: "none", "aria-label": name, onerror: fails })];
}
