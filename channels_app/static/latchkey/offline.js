// The page without a connection: the shell that the service worker keeps is the page of the chat
// without a person. Whose it is, this browser knows; drafts and unsent messages are in the tab.

import { browserStorage, tabStorage } from "./storage.js";

const PERSON = "latchkey.person";
const SHARED = "latchkey-shared";
const PATIENCE = 10_000;
export const LATER = 15_000;

let isLeaving = false;
let wasAsked = false;

/** Settles when nothing is left here of another person who used this browser before. */
export const cleared = isShell() ? Promise.resolve() : greet(document.body.dataset.person);

if (isShell()) {
  document.body.dataset.person = browserStorage.getItem(PERSON) ?? "";
  document.body.dataset.session = /^\/c\/([\w-]{22})$/.exec(location.pathname)?.[1] ?? "";
} else {
  onSignOut(() => browserStorage.removeItem(PERSON));
}
document.querySelector("#sign-out")?.addEventListener("submit", () => {
  isLeaving = true;
  // After the listener by which the browser asks first, because of a file that is not uploaded.
  addEventListener("beforeunload", ({ defaultPrevented }) => (wasAsked = defaultPrevented), { once: true });
});
// Whoever was asked and stays presses something next; Escape ends a loading. Other presses are of a slow network.
for (const name of ["keydown", "pointerdown"]) {
  addEventListener(name, ({ key }) => (isLeaving &&= !(wasAsked || key === "Escape")), true);
}

/** Call this when the page is left by signing out. */
export function onSignOut(call) {
  addEventListener("pagehide", () => isLeaving && call());
}

/** Whether the page is on its way to sign in anew by itself. */
export function isSigningOut() {
  return isLeaving;
}

// The browser is theirs only once it is cleared: a page that is closed before leaves that to the next.
async function greet(person) {
  const before = browserStorage.getItem(PERSON);
  if (before === person) return;
  await clear({ shared: before !== null }).catch(() => {});
  browserStorage.setItem(PERSON, person);
}

// `shared`: who signs in only after sharing something still finds it; signing out removed the rest.
async function clear({ shared }) {
  if (shared && "caches" in window) await caches.delete(SHARED);
  const registration = await navigator.serviceWorker?.getRegistration("/");
  for (const each of (await registration?.getNotifications?.()) ?? []) each.close();
  await navigator.clearAppBadge?.();
}

/** Whether this is the page without a connection. */
export function isShell() {
  return Boolean(document.body.dataset.offline);
}

/** Once connected, replace the shell by the page itself, unless that would lose something; whether
 * it is on its way. */
export async function leaveShell({ attachments }) {
  document.querySelector("#offline-note")?.remove();
  const isFree = () => tabStorage.isStored && attachments.areKept;
  if (!isFree() || !(await isPageThere()) || !isFree()) return false;
  loadPage();
  return true;
}

// A proxy may let sockets through and answer pages itself: the shell would come again at once.
async function isPageThere() {
  const asked = fetch(pagePath(), { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  return asked.then(({ ok }) => ok).catch(() => false);
}

/** Load the page of the person who is signed in now; from the shell once it is there. */
export async function loadPageOfPerson() {
  if (isShell() && !(await isPageThere())) setTimeout(loadPageOfPerson, LATER);
  else loadPage();
}

function loadPage() {
  navigator.serviceWorker?.controller?.postMessage({ type: "reached" });
  if (pagePath() === location.pathname) location.reload();
  else location.replace(pagePath());
}

// The address of the shell itself is that of no page.
function pagePath() {
  return location.pathname === "/offline" ? "/" : location.pathname;
}
