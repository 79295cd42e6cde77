// What is copied from the conversation: its structure, without the colours of the page. With them an
// answer that is copied in the dark would be light on dark in a letter.

import { htmlIn } from "./dom.js";

const NOT_COPIED = "button, .code-head, .answer-foot, .said-foot, .status, [aria-hidden]";
// A part of one of these is copied as such: two rows are a table, a line of code is code.
const KEPT_AROUND = ":is(ul, ol, table, thead, tbody, tr, pre, code, span, strong, em, a, s, u, sub, sup, kbd, mark)";
const KEPT = new Set(["href", "src", "alt", "start", "align", "type", "checked", "disabled", "display", "lang", "dir"]);

/** Put what is selected on the clipboard; for the event `copy`. */
export function copyPlainly(event) {
  const selection = getSelection();
  if (selection.isCollapsed || event.clipboardData === null) return;
  event.clipboardData.setData("text/html", htmlOf(selection.getRangeAt(0)));
  event.clipboardData.setData("text/plain", selection.toString());
  event.preventDefault();
}

function htmlOf(range) {
  const place = document.createElement("div");
  let content = range.cloneContents();
  const common = range.commonAncestorContainer;
  let around = common.nodeType === Node.ELEMENT_NODE ? common : common.parentElement;
  for (; around.matches(KEPT_AROUND); around = around.parentElement) {
    const outer = around.cloneNode(false);
    outer.append(content);
    content = outer;
  }
  place.append(content);
  for (const node of place.querySelectorAll(NOT_COPIED)) node.remove();
  for (const node of place.querySelectorAll("*")) {
    for (const name of ["href", "src"]) if (node.hasAttribute(name)) node.setAttribute(name, node[name]);
    for (const { name } of [...node.attributes]) if (!KEPT.has(name)) node.removeAttribute(name);
  }
  return htmlIn(place);
}
