// The text of an answer on the page: a preview that grows, then the server's rendering.

import { el, icon, setServerHtml } from "./dom.js";
import { pieces } from "./highlight.js";
import { parseBlocks, parseInline, settledUpTo } from "./preview.js";
import { gettext, LANGUAGE } from "./texts.js";

// The beginning of a line with only markers so far: their meaning is not known yet.
const UNFINISHED = /(?:^|\n)[ |#>*_`~+-]{1,6}$/;

/** A growing text. Blocks that have not changed stay, and code grows in its place: so do what a person
 * selects and scrolls in it. */
export class LiveText {
  #settled = 0;
  #text = "";
  #tail = [];
  #firstHeading = 0;

  constructor() {
    this.node = el("div.prose.streaming", { dir: "auto" });
  }

  show(text) {
    if (!text.startsWith(this.#text.slice(0, this.#settled))) this.#restart();
    this.#text = text;
    this.#runAs(text);
    const settled = settledUpTo(text, this.#settled);
    const blocks = parseBlocks(text.slice(this.#settled, settled));
    this.#draw([...blocks, ...parseBlocks(text.slice(settled).replace(UNFINISHED, ""))]);
    for (const { node } of this.#tail.splice(0, blocks.length)) colourSettled(node);
    this.#settled = settled;
  }

  /** Put the server's rendering in place of the preview, once nothing of that is selected. */
  showHtml(html) {
    this.node.classList.remove("streaming");
    if (isSelected(this.node)) {
      document.addEventListener("selectionchange", () => this.showHtml(html), { once: true });
      return;
    }
    setServerHtml(this.node, html);
    this.#runAs(this.node.textContent);
    decorate(this.node);
  }

  /** Its lists and tables run as most of its first letters do: one in Arabic may begin with a Latin name. */
  #runAs(text) {
    const first = text.slice(0, 999);
    this.node.dir = first.replace(/[^\u0590-\u08ff]/g, "").length > first.replace(/[^a-z]/gi, "").length ? "rtl" : "auto";
  }

  /** Let the tail be these blocks. */
  #draw(blocks) {
    const level = blocks.find((block) => block.type === "heading")?.level ?? 0;
    this.#firstHeading = this.#firstHeading || level;
    blocks.forEach((block, at) => {
      const shown = this.#tail[at];
      const content = JSON.stringify(block);
      if (shown?.content === content) return;
      const node = shown && hasGrown(shown, block) ? shown.node : blockNode(block, this.#firstHeading);
      if (!shown) this.node.append(node);
      else if (node !== shown.node) shown.node.replaceWith(node);
      this.#tail[at] = { block, content, node };
    });
    for (const { node } of this.#tail.splice(blocks.length)) node.remove();
  }

  #restart() {
    this.node.replaceChildren();
    this.#settled = 0;
    this.#tail = [];
  }
}

function isSelected(node) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

/** Whether code goes on; what comes is added where it is shown. */
function hasGrown({ block, node }, now) {
  const goesOn = block.type === "code" && now.type === "code" && block.language === now.language && now.text.startsWith(block.text);
  if (goesOn) node.querySelector("code").firstChild.appendData(now.text.slice(block.text.length));
  return goesOn;
}

/** Give each code block its language and a button that copies it. */
function decorate(root) {
  for (const pre of root.querySelectorAll("pre")) {
    if (pre.parentElement.classList.contains("code")) continue;
    const frame = el("div.code", {});
    pre.replaceWith(frame);
    pre.tabIndex = 0;
    const head = el("div.code-head", {}, el("span", {}, pre.dataset.language || gettext("text")));
    head.append(copyButton(gettext("Copy code"), () => pre.textContent));
    frame.append(head, pre);
    colour(pre, pre.dataset.language ?? "");
  }
}

function colour(pre, language) {
  const code = pre.querySelector("code") ?? pre;
  const shown = pieces(code.textContent, language).map(([kind, text]) => (kind ? el(`span.tok-${kind}`, {}, text) : text));
  if (shown.some((piece) => typeof piece !== "string")) code.replaceChildren(...shown);
}

/** A button that copies the result of `text()` and confirms it. */
export function copyButton(label, text) {
  const button = el("button.copy", { type: "button", lang: LANGUAGE, "aria-label": label, title: label });
  const rest = () => button.replaceChildren(icon("copy"), el("span.word", {}, gettext("Copy")));
  button.addEventListener("click", async () => {
    const copied = await writeClipboard(text());
    const words = copied ? gettext("Copied") : gettext("Not allowed");
    button.replaceChildren(icon(copied ? "check" : "warning"), el("span.word", {}, words));
    document.querySelector("#announcer").textContent = words; // the button keeps its name
    setTimeout(rest, 1600);
  });
  rest();
  return button;
}

async function writeClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// The clipboard API needs https or localhost; a gateway at http://192.168.… has neither.
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = el("textarea.visually-hidden", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused.focus({ preventScroll: true });
  return copied;
}

function blockNode(block, firstHeading = 1) {
  switch (block.type) {
    case "heading":
      return el(headingTag(block.level, firstHeading), {}, ...inline(block.text));
    case "code":
      return codeNode(block);
    case "quote":
      return el("blockquote", {}, ...block.blocks.map((inner) => blockNode(inner)));
    case "list":
      return listNode(block);
    case "table":
      return tableNode(block);
    case "rule":
      return el("hr");
    default:
      return el("p", {}, ...inline(block.text));
  }
}

// Once a block is settled, not with each word of it.
function colourSettled(node) {
  if (!node.matches(".code") || isSelected(node)) return;
  colour(node.querySelector("pre"), node.querySelector(".code-head span").textContent);
}

// As the server does it: the first heading of an answer is an h3.
function headingTag(level, first) {
  return `h${Math.min(3 + Math.max(0, level - first), 6)}`;
}

function codeNode(block) {
  const head = el("div.code-head", {}, el("span", {}, block.language || gettext("text")));
  return el("div.code", {}, head, el("pre", {}, el("code", {}, block.text)));
}

function listNode(block) {
  const items = block.items.map(itemNode);
  return block.ordered ? el("ol", { start: block.start }, ...items) : el("ul", {}, ...items);
}

function itemNode(blocks) {
  const [first, ...rest] = blocks;
  if (first?.isDone === undefined) return el("li", {}, ...tightened(blocks));
  const box = el("input", { type: "checkbox", disabled: true, checked: first.isDone });
  const label = el("label", {}, box, " ", ...inline(first.text));
  return el("li.task-list-item", {}, label, ...rest.map((inner) => blockNode(inner)));
}

function tightened(blocks) {
  const [first, ...rest] = blocks;
  if (first?.type !== "paragraph") return blocks.map((inner) => blockNode(inner));
  return [...inline(first.text), ...rest.map((inner) => blockNode(inner))];
}

function tableNode(block) {
  const row = (tag, cells) =>
    el("tr", {}, ...cells.map((cell, at) => el(tag, { align: block.align[at] || null }, ...inline(cell))));
  const head = el("thead", {}, row("th", block.head));
  const body = el("tbody", {}, ...block.rows.map((cells) => row("td", cells)));
  return el("div.table-scroll", {}, el("table", {}, head, body));
}

function inline(text) {
  return parseInline(text).flatMap(inlineNodes);
}

function inlineNodes(piece) {
  const inside = () => piece.children.flatMap(inlineNodes);
  switch (piece.type) {
    case "text":
      return withBreaks(piece.text);
    case "code":
      return [el("code", {}, piece.text)];
    case "link":
      return [el("span.link-to-be", {}, ...inside())];
    default:
      return [el(piece.type, {}, ...inside())];
  }
}

function withBreaks(text) {
  return text.split("\n").flatMap((line, at) => (at ? [el("br"), line] : [line]));
}
