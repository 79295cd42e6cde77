// The header of the admin, live: the number of pending requests, a toast for each new one, and the
// browser's notification if the owner allowed it. Texts of unknown senders are text nodes only.

import { Connection } from "./connection.js";
import { el } from "./dom.js";

const TOAST = 20_000;
const MOST_TOASTS = 3;
const TITLE = document.title;

const bell = document.querySelector("[data-dashboard-bell]");
const allow = document.querySelector("[data-dashboard-allow]");
const toasts = document.querySelector("[data-dashboard-toasts]");

function show(count) {
  const people = count === 1 ? "1 unknown request pending" : `${count} unknown requests pending`;
  bell.querySelector("[data-dashboard-count]").textContent = String(count);
  bell.classList.toggle("dashboard-bell-busy", count > 0);
  bell.setAttribute("aria-label", count ? people : "No pending requests");
  bell.title = bell.getAttribute("aria-label");
  document.title = count ? `(${count}) ${TITLE}` : TITLE;
  const inSidebar = sidebarBadge();
  if (inSidebar) inSidebar.textContent = String(count);
}

// The admin's own badge beside the list's name: the only part of that link that is a number.
function sidebarBadge() {
  const links = document.querySelectorAll('a[href$="/allowlist/unknownrequest/"] span');
  return [...links].find((each) => /^\s*\d+\s*$/.test(each.textContent));
}

function toast(frame) {
  const close = () => node.remove();
  const quote = frame.quote ? el("blockquote.dashboard-toast-quote", {}, frame.quote) : null;
  const node = el(
    "section.dashboard-toast",
    { "data-request": frame.request, "aria-label": "Unknown request" },
    el("p", {}, frame.text),
    quote,
    el(
      "p.dashboard-buttons",
      {},
      el("a.dashboard-button.dashboard-button-yes", { href: frame.address }, "Review"),
      el("button.dashboard-button", { type: "button", onclick: close }, "Later"),
    ),
  );
  toasts.append(node);
  while (toasts.children.length > MOST_TOASTS) toasts.firstElementChild.remove();
  setTimeout(close, TOAST);
}

function notify(frame) {
  if (!("Notification" in globalThis) || Notification.permission !== "granted") return;
  const body = [frame.text, frame.quote].filter(Boolean).join("\n");
  const notice = new Notification("New unknown request", { body, tag: frame.request });
  notice.onclick = () => {
    globalThis.focus();
    location.assign(frame.address);
  };
}

function offerNotifications() {
  const asks = "Notification" in globalThis && Notification.permission === "default";
  allow.hidden = !asks;
}

function receive(frame) {
  if (frame.type === "waiting") show(Number(frame.count));
  if (frame.type === "knock") {
    toast(frame);
    notify(frame);
  }
}

function start() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const connection = new Connection({
    open: () => new WebSocket(`${scheme}//${location.host}/ws/desk`),
    on: {
      open: () => {},
      frame: receive,
      state: (state) => bell.classList.toggle("dashboard-bell-away", state === "waiting"),
      signedOut: () => bell.classList.add("dashboard-bell-away"),
      refused: () => {},
    },
  });
  connection.start();
  globalThis.addEventListener("online", () => connection.restart());
}

if (bell) {
  offerNotifications();
  allow.addEventListener("click", async () => {
    await Notification.requestPermission();
    offerNotifications();
  });
  start();
}
