// Action messages of an answer. Unknown ones are ignored.

import { textOf } from "./conversation.js";
import { ownUrl, scrolling } from "./dom.js";
import { tabStorage } from "./storage.js";

const DONE = "latchkey.actions";
const REMEMBERED = 100;

/** Execute an action message; `page` is {openSettings, openSidebar, refresh, goTo}. Each `id` once
 * in a tab: a page that loads again, as an action may tell it to, reads an open run from its beginning. */
export function act(id, props, page) {
  const doing = ACTIONS[textOf(props.name)];
  if (doing === undefined || !isFirst(id)) return;
  doing(typeof props.payload === "object" && props.payload !== null ? props.payload : {}, page);
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
    target?.scrollIntoView({ behavior: scrolling(), block: "start" });
  },
});

function isFirst(id) {
  const done = JSON.parse(tabStorage.getItem(DONE) ?? "[]");
  if (done.includes(id)) return false;
  // One that a reload would not know of might load the page again and again.
  return tabStorage.setItem(DONE, JSON.stringify([...done, id].slice(-REMEMBERED)));
}

function findRun(id) {
  return document.querySelector(`[data-run="${CSS.escape(id)}"]`);
}
