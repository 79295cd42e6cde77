// The header of the admin, live: the numbers of pending requests and of waiting calls of tools, a
// toast for each new one, and the browser's notification if the owner allowed it. Foreign texts are
// text nodes only.

import { Connection, socketOf } from "./connection.js";
import { el } from "./dom.js";
import { filled, gettext, ngettext } from "./texts.js";
import { tellVisibility } from "./visibility.js";

const TOAST = 20_000;
const MOST_TOASTS = 3;
const TITLE = document.title;

const live = document.querySelector("[data-dashboard-live]");
const allow = document.querySelector("[data-dashboard-allow]");
const toasts = document.querySelector("[data-dashboard-toasts]");
// What waits: its bell, its list in the sidebar, and its words.
const KINDS = {
  request: {
    bell: document.querySelector("[data-dashboard-bell]"),
    list: "/allowlist/unknownrequest/",
    says: requests,
    title: gettext("New unknown request"),
    label: gettext("Unknown request"),
  },
  call: {
    bell: document.querySelector("[data-dashboard-calls]"),
    list: "/core/toolcall/",
    says: (count) => filled(gettext("Waiting calls of tools: {count}"), { count }),
    title: gettext("A tool needs a yes"),
    label: gettext("Call of a tool"),
  },
};

function requests(count) {
  if (!count) return gettext("No pending requests");
  return filled(ngettext("{count} unknown request pending", "{count} unknown requests pending", count), { count });
}

function show(kind, count) {
  const { bell, list } = kind;
  if (!bell) return;
  bell.querySelector(".dashboard-count").textContent = String(count);
  bell.classList.toggle("dashboard-bell-busy", count > 0);
  if (kind === KINDS.call) bell.hidden = count === 0;
  bell.title = kind.says(count);
  bell.setAttribute("aria-label", bell.title);
  const inSidebar = sidebarBadge(list);
  if (inSidebar) inSidebar.textContent = String(count);
  kind.count = count;
  const all = Object.values(KINDS).reduce((sum, each) => sum + (each.count ?? 0), 0);
  document.title = all ? `(${all}) ${TITLE}` : TITLE;
}

// The admin's own badge beside the list's name: the only part of that link that is a number.
function sidebarBadge(list) {
  const links = document.querySelectorAll(`a[href$="${list}"] span`);
  return [...links].find((each) => /^\s*\d+\s*$/.test(each.textContent));
}

function toast(frame, kind) {
  const close = () => node.remove();
  const quote = frame.quote ? el("blockquote.dashboard-toast-quote", { dir: "auto" }, frame.quote) : null;
  const node = el(
    "section.dashboard-toast",
    { "data-request": frame.request, "aria-label": kind.label },
    el("p.dashboard-toast-text", {}, frame.text),
    quote,
    el(
      "p.dashboard-buttons",
      {},
      el("a.dashboard-button.dashboard-button-yes", { href: frame.address }, gettext("Review")),
      el("button.dashboard-button", { type: "button", onclick: close }, gettext("Later")),
    ),
  );
  toasts.append(node);
  while (toasts.children.length > MOST_TOASTS) toasts.firstElementChild.remove();
  setTimeout(close, TOAST);
}

async function notify(frame, kind) {
  if (!("Notification" in globalThis) || Notification.permission !== "granted") return;
  const body = [frame.text, frame.quote].filter(Boolean).join("\n");
  const said = { body, tag: frame.request, data: { url: frame.address } };
  try {
    const notice = new Notification(kind.title, said);
    notice.onclick = () => {
      globalThis.focus();
      location.assign(frame.address);
    };
  } catch {
    // On Android only a service worker may: that of the chat, if it was opened in this browser.
    const registration = await navigator.serviceWorker?.getRegistration("/");
    await registration?.showNotification(kind.title, said);
  }
}

function offerNotifications() {
  allow.hidden = !("Notification" in globalThis && Notification.permission === "default");
}

function receive(frame) {
  if (frame.type === "waiting") {
    show(KINDS.request, Number(frame.count ?? 0));
    show(KINDS.call, Number(frame.calls ?? 0));
  }
  const kind = { knock: KINDS.request, tool_call: KINDS.call }[frame.type];
  if (kind) {
    toast(frame, kind);
    notify(frame, kind);
  }
}

function start() {
  const visibility = tellVisibility((frame) => connection.send(frame));
  const connection = new Connection({
    open: () => new WebSocket(socketOf("/ws/desk")),
    on: {
      open: visibility,
      frame: receive,
      state: (state) => live.classList.toggle("dashboard-bell-away", state === "waiting"),
      signedOut: () => live.classList.add("dashboard-bell-away"),
      refused: () => {},
    },
  });
  connection.start();
  for (const name of ["online", "offline"]) globalThis.addEventListener(name, () => connection.restart());
}

if (live) {
  offerNotifications();
  allow.addEventListener("click", async () => {
    await Notification.requestPermission();
    offerNotifications();
  });
  start();
}
