// The page without a connection: the shell that the service worker keeps is the page of the chat
// without a person. Whose it is, this browser knows; drafts and unsent messages are in the tab.

const PERSON = "latchkey.person";

if (isShell()) {
  document.body.dataset.person = localStorage.getItem(PERSON) ?? "";
  document.body.dataset.session = /^\/c\/([\w-]{22})$/.exec(location.pathname)?.[1] ?? "";
} else {
  localStorage.setItem(PERSON, document.body.dataset.person);
  document.querySelector("#sign-out")?.addEventListener("submit", () => localStorage.removeItem(PERSON));
}

/** Whether this is the page without a connection. */
export function isShell() {
  return Boolean(document.body.dataset.offline);
}

/** Once connected, replace the shell by the page itself, unless that would lose something. */
export function leaveShell({ outbox, attachments }) {
  if (!isShell()) return false;
  document.querySelector("#offline-note")?.remove();
  if (!outbox.isStored || !attachments.isEmpty) return false;
  // The address of the shell itself is that of no page.
  if (location.pathname === "/offline") location.replace("/");
  else location.reload();
  return true;
}
