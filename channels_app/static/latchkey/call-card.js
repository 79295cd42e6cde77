// The card of a tool that waits for a yes: who asks, what it would do, and the buttons.

import { textOf } from "./conversation.js";
import { el, webUrl } from "./dom.js";

const LOOKS = { once: ".button-primary", deny: ".button-danger" };

/** The parts of a question's text: the question with who asks, its details, and the outcome. */
function partsOf(text) {
  const [asked, ...outcome] = text.split("\n\n");
  const lines = asked.split("\n");
  return { head: lines.slice(0, 2), details: lines.slice(2), outcome: outcome.join("\n\n") };
}

/** The content of a card; `decide(callId, digest, choice)` sends the decision. */
export function callBody(frame, decide) {
  const { head, details, outcome } = partsOf(textOf(frame.text));
  const body = el("div.notice-body", {}, el("p.call-head", {}, el("strong", {}, head[0] ?? "")));
  if (head[1]) body.append(el("p.call-where", {}, head[1]));
  if (frame.decided) {
    body.append(el("p.plain", {}, outcome || details.join("\n")));
    return body;
  }
  if (details.length) body.append(quoted("blockquote.sender-quote.call-details", details.join("\n"), 0));
  const problem = textOf(frame.problem);
  if (problem) body.append(el("p.call-problem", { role: "alert" }, problem));
  body.append(buttonsOf(frame, decide));
  return body;
}

/** Foreign text: whole when it is pressed, for little room it is cut. */
export function quoted(selector, text, tabindex = null) {
  const onclick = ({ currentTarget }) => currentTarget.classList.toggle("whole");
  return el(selector, { title: text, tabindex, dir: "auto", onclick }, text);
}

function buttonsOf(frame, decide) {
  const row = el("div.notice-buttons");
  for (const [choice, label] of choicesOf(frame)) {
    const send = () => decide(textOf(frame.tool_call), textOf(frame.digest), choice);
    row.append(choice === "edit" ? linkTo(frame.page, label) : choiceButton(label, LOOKS[choice] ?? "", send));
  }
  return row;
}

/** A button of a card; `send` sends the choice, and says whether it could: then all are disabled. */
export function choiceButton(label, look, send) {
  const onclick = (event) => {
    const all = event.currentTarget.parentElement.querySelectorAll("button");
    for (const each of all) each.disabled = true;
    event.currentTarget.closest("section").focus(); // what is disabled loses it
    if (!send()) for (const each of all) each.disabled = false;
  };
  return el(`button.button${look}`, { type: "button", onclick }, label);
}

function choicesOf(frame) {
  const given = Array.isArray(frame.choices) ? frame.choices : [];
  const known = given.filter(Array.isArray).map((each) => each.map(textOf));
  return known.filter(([choice]) => choice !== "edit" || webUrl(frame.page));
}

// By its path: the page stands beside the chat, whatever name the gateway is called by.
function linkTo(page, label) {
  const attributes = { href: webUrl(page).pathname, target: "_blank", rel: "noopener" };
  return el("a.button", attributes, label);
}
