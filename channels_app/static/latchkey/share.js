// What another app shared: the service worker put it aside, and it becomes a draft. Nothing is sent.

import { gettext } from "./texts.js";

const SHARED = "latchkey-shared";
const LONGEST = 3_600_000;
const LOST = gettext("The shared content did not arrive. Share it again, now that the chat is open.");

/** Put what was shared into the message box with `add(text, files)`. */
export async function takeShared({ add, failed }) {
  const given = new URLSearchParams(location.search).get("shared");
  if (given === null) return;
  history.replaceState(history.state, "", location.pathname);
  const found = given === "lost" || !("caches" in window) ? null : await taken().catch(() => null);
  if (found === null) failed(LOST);
  else add(found.text, found.files);
}

async function taken() {
  if (!(await caches.has(SHARED))) return null;
  const cache = await caches.open(SHARED);
  const said = await cache.match("/shared/text");
  const found = said ? await said.json() : null;
  const files = [];
  for (const [index, { name, type }] of (found?.files ?? []).entries()) {
    const file = await cache.match(`/shared/${index}`);
    if (file) files.push(new File([await file.blob()], name, { type }));
  }
  await caches.delete(SHARED);
  return found !== null && Date.now() - found.at < LONGEST ? { text: found.text, files } : null;
}
