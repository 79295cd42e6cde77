// Messages of the gateway itself: short toasts, and cards with decisions.

import { callBody, choiceButton } from "./call-card.js";
import { textOf } from "./conversation.js";
import { el, focusBox, icon, iconButton } from "./dom.js";
import { filled, gettext, ngettext } from "./texts.js";

const TOAST = 6000;
const VERDICTS = [
  ["approve", gettext("Approve"), ".button-primary"],
  ["approve_24h", gettext("Approve 24 h"), ""],
  ["deny", gettext("Deny"), ""],
  ["block", gettext("Block"), ".button-danger"],
];

// The frames of dismissed cards, by what they ask: each new connection brings what waits.
const dismissed = new Map();

/** Show a toast for a few seconds. */
export function toast(message) {
  const place = document.querySelector("#toasts");
  const dialog = document.querySelector("dialog[open]");
  if (dialog && !dialog.contains(place)) keepWithin(dialog, place);
  const node = el("p.toast", { role: dialog ? "alert" : null }, message);
  place.append(node);
  setTimeout(() => node.remove(), TOAST);
}

/** An open dialog lies over the page, and readers of screens hear nothing beside it. */
function keepWithin(dialog, place) {
  dialog.append(place);
  dialog.addEventListener("close", () => document.body.append(place), { once: true });
}

/** Show a notice; `decide` sends the decision about an unknown request (`request(id, verdict)`) or
 * a call of a tool (`call(id, digest, choice)`). */
export function showNotice(frame, decide) {
  const place = document.querySelector("#notices");
  const call = textOf(frame.tool_call);
  const id = call || textOf(frame.request);
  const old = id ? place.querySelector(`[data-request="${CSS.escape(id)}"]`) : null;
  if (frame.decided && !old) return; // decided elsewhere, and never shown here
  if (id && dismissed.get(id) === JSON.stringify(frame)) return;
  const node = call ? callCard(frame, id, decide.call) : card(frame, id, decide.request);
  const isFocused = old?.contains(document.activeElement);
  if (old) old.replaceWith(node);
  else place.prepend(node);
  arrange(place);
  if (isFocused) node.querySelector(".icon-button").focus();
}

/** Enable the buttons of all cards again. */
export function offerDecisions() {
  for (const button of document.querySelectorAll("#notices button:disabled")) button.disabled = false;
}

/** One card is shown, the newest; the others wait behind a button, so that the conversation stays
 * in view. */
function arrange(place) {
  place.querySelector(".notices-more")?.remove();
  const cards = [...place.querySelectorAll(".notice")];
  const open = cards.length > 1 && place.hasAttribute("data-open");
  place.toggleAttribute("data-open", open);
  cards.forEach((each, index) => {
    each.hidden = index > 0 && !open;
  });
  if (cards.length < 2) return;
  const label = open ? gettext("Show one") : filled(ngettext("{count} more", "{count} more", cards.length - 1), { count: cards.length - 1 });
  const toggle = () => {
    place.toggleAttribute("data-open", !open);
    arrange(place);
    place.querySelector(".notices-more").focus({ preventScroll: true });
  };
  const attributes = { type: "button", "aria-expanded": String(open), onclick: toggle };
  place.append(el("button.button.notices-more", attributes, label));
}

function dismiss(node, id, frame) {
  dismissed.set(id, JSON.stringify(frame));
  const place = node.parentElement;
  node.remove();
  arrange(place);
  const next = place.querySelector(".notice .icon-button");
  if (next) next.focus();
  else focusBox();
}

function callCard(frame, id, decide) {
  const attributes = { "data-request": id, role: "group", tabindex: -1, "aria-label": gettext("Call of a tool") };
  const node = el("section.notice", attributes, icon("tool"), callBody(frame, decide));
  node.append(iconButton("close", gettext("Dismiss the notice"), () => dismiss(node, id, frame)));
  return node;
}

function card(frame, id, decide) {
  const text = el("p.plain", {}, textOf(frame.text));
  const quote = textOf(frame.quote);
  const senderQuote = quote ? el("blockquote.sender-quote", { title: quote, dir: "auto" }, quote) : null;
  senderQuote?.addEventListener("click", () => senderQuote.classList.toggle("whole"));
  const attributes = { "data-request": id, role: "group", tabindex: -1, "aria-label": gettext("Notice") };
  const node = el("section.notice", attributes, icon(id ? "request" : "bell"));
  const open = id && !frame.decided;
  const buttons = VERDICTS.map(([verdict, label, look]) => choiceButton(label, look, () => decide(id, verdict)));
  const row = open ? el("div.notice-buttons", {}, ...buttons) : null;
  node.append(el("div.notice-body", {}, text, senderQuote, row));
  node.append(iconButton("close", gettext("Dismiss the notice"), () => dismiss(node, id, frame)));
  return node;
}
