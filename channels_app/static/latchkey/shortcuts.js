// The keys that work anywhere on the page; what they are is in the dialog that Ctrl + / opens.

import { isComposing, isSending } from "./dom.js";

/** on: {stop, write, newChat, search}. */
export function listenForShortcuts(on) {
  const help = document.querySelector("#shortcuts");
  const show = () => {
    for (const open of document.querySelectorAll("dialog[open]")) open.close();
    help.showModal();
  };
  document.querySelector("[data-open-shortcuts]").addEventListener("click", show);
  const doing = {
    escape: on.stop,
    "/": on.write,
    "mod+k": on.search,
    "mod+shift+o": on.newChat,
    "mod+/": show,
  };
  document.addEventListener("keydown", ignoreHeld, true);
  document.addEventListener("keydown", (event) => {
    if (isComposing(event) || document.querySelector("dialog[open]")) return;
    const pressed = nameOf(event);
    if (!Object.hasOwn(doing, pressed) || (pressed === "/" && isTyping(event))) return;
    if (pressed !== "escape") event.preventDefault();
    doing[pressed]();
  });
}

/** A key that is held for long goes on where the focus went: it would press what is there, or send the draft. */
function ignoreHeld(event) {
  if (!event.repeat || !(event.key === "Escape" || isSending(event) || (event.key === "Enter" && !isTyping(event)))) return;
  event.preventDefault();
  event.stopPropagation();
}

function nameOf(event) {
  if (event.altKey) return "";
  const modifier = event.metaKey || event.ctrlKey ? "mod+" : "";
  // Where a layout has / above a digit, shift is what makes it.
  const shift = event.shiftKey && event.key !== "/" ? "shift+" : "";
  // A layout of another script has no such letters: the keys in their places are meant.
  const key = (event.key > "~" ? event.code : event.key).toLowerCase();
  return modifier + shift + key.replace("slash", "/").replace("key", "");
}

function isTyping(event) {
  return Boolean(event.target.closest?.("input, textarea, [contenteditable]"));
}
