// Action messages of an answer. Unknown ones are ignored.

import { textOf } from "./conversation.js";
import { ownUrl } from "./dom.js";

/** Execute an action message; `page` is {openSettings, openSidebar, refresh, goTo}. */
export function act(props, page) {
  const payload = typeof props.payload === "object" && props.payload !== null ? props.payload : {};
  const doing = ACTIONS[textOf(props.name)];
  if (doing === undefined) return false;
  doing(payload, page);
  return true;
}

const ACTIONS = Object.assign(Object.create(null), {
  open_panel: (payload, page) => {
    const panel = textOf(payload.panel_id);
    if (panel === "settings") page.openSettings();
    if (panel === "sessions" || panel === "chats") page.openSidebar();
  },
  navigate: (payload, page) => {
    const url = ownUrl(textOf(payload.url) || textOf(payload.path) || ":");
    if (url !== null) page.goTo(url);
  },
  refresh_view: (_payload, page) => page.refresh(),
  close_modal: () => {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  },
  scroll_to: (payload) => {
    const id = textOf(payload.element_id) || textOf(payload.run_id);
    const target = id ? (document.getElementById(id) ?? findRun(id)) : null;
    target?.scrollIntoView({ behavior: "smooth", block: "start" });
  },
});

function findRun(id) {
  return document.querySelector(`[data-run="${CSS.escape(id)}"]`);
}
