// Messages of the gateway itself: short toasts, and cards with decisions.

import { callBody, choiceButton, quoted } from "./call-card.js";
import { textOf } from "./conversation.js";
import { el, focusBox, icon, iconButton, onPress } from "./dom.js";
import { filled, gettext, ngettext } from "./texts.js";

const TOAST = 6000;
const MOST = 100; // of what one frame may name
const VERDICTS = [
  ["approve", gettext("Approve"), ".button-primary"],
  ["approve_24h", gettext("Approve 24 h"), ""],
  ["deny", gettext("Deny"), ""],
  ["block", gettext("Block"), ".button-danger"],
];

// The last frame of each card, by what it asks: each new connection brings what waits.
const shown = new Map();

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
  const said = JSON.stringify(frame);
  if (id && shown.get(id) === said) return offerDecisions();
  shown.set(id, said);
  const label = call ? gettext("Call of a tool") : gettext("Notice");
  const body = call ? callBody(frame, decide.call) : requestBody(frame, id, decide.request);
  const attributes = { "data-request": id, role: "group", tabindex: -1, "aria-label": label };
  const node = el("section.notice", attributes, icon(call ? "tool" : id ? "request" : "bell"), body);
  node.append(iconButton("close", gettext("Dismiss the notice"), onPress(() => dismiss(node))));
  const isFocused = old?.contains(document.activeElement);
  if (old) old.replaceWith(node);
  else if (place.matches(":hover, :focus-within")) place.append(node); // none comes under the pointer
  else place.prepend(node);
  arrange(place);
  if (isFocused) node.querySelector(".icon-button").focus();
}

/** The decisions of `showNotice`, each sent over the connection; false without one. */
export function decisionsOver(connection) {
  const send = (fields) => {
    const sent = connection.send({ type: "decide", ...fields });
    if (!sent) toast(gettext("No connection. Try again in a moment."));
    return sent;
  };
  return {
    request: (request, verdict) => send({ request, verdict }),
    call: (call, digest, choice) => send({ tool_call: call, digest, choice }),
  };
}

/** What the open cards ask about: some may have been decided while there was no connection. */
export function openCards() {
  const buttons = [...document.querySelectorAll("#notices .notice-buttons")];
  return buttons.map((each) => each.closest(".notice").dataset.request).slice(0, MOST);
}

/** Enable the buttons of all cards again. */
export function offerDecisions() {
  for (const button of document.querySelectorAll("#notices button:disabled")) button.disabled = false;
}

/** One card is shown, the newest; the others wait behind a button, so that the conversation stays
 * in view. */
function arrange(place) {
  const more = place.querySelector(".notices-more");
  const isFocused = more === document.activeElement;
  more?.remove();
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
  };
  const attributes = { type: "button", "aria-expanded": String(open), onclick: toggle };
  const button = el("button.button.notices-more", attributes, label);
  place.append(button);
  if (isFocused) button.focus({ preventScroll: true });
}

function dismiss(node) {
  const place = node.parentElement;
  node.remove();
  arrange(place);
  const next = place.querySelector(".notice .icon-button");
  if (next) next.focus();
  else focusBox();
}

/** The card of an unknown request, or of a notice that asks nothing. */
function requestBody(frame, id, decide) {
  const quote = textOf(frame.quote);
  const buttons = VERDICTS.map(([verdict, label, look]) => choiceButton(label, look, () => decide(id, verdict)));
  return el(
    "div.notice-body",
    {},
    el("p.plain", {}, textOf(frame.text)),
    quote ? quoted("blockquote.sender-quote", quote) : null,
    id && !frame.decided ? el("div.notice-buttons", {}, ...buttons) : null,
  );
}
