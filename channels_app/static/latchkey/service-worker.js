// The service worker of the whole gateway, served at /sw.js below a line that defines GIVEN:
// {version, shell, files, icon, badge}. It keeps the shell of the chat and static files, whose names
// carry their content; it keeps no answer, no page of a person, and nothing of the admin or the API.

const KEPT = `latchkey-shell-${GIVEN.version}`;
const SHARED = "latchkey-shared";
const FILES = new Set(GIVEN.files);
const MOST_SHARED = 8;
// What a proxy answers while the gateway behind it starts anew, or the gateway without its database.
const AWAY = new Set([502, 503, 504]);
// Behind a captive portal, or on a network that stalls, no answer comes at all (as Workbox's pageCache).
const PATIENCE = 3000;
const RELOADS = new Set(["no-cache", "reload"]);
const REACHED = 60_000;

let reachedAt = Number.NEGATIVE_INFINITY; // when a page found that the gateway answers

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(fill());
});

addEventListener("activate", (event) => {
  event.waitUntil(Promise.all([clients.claim(), forget((name) => name !== KEPT && name !== SHARED)]));
});

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (url.origin !== location.origin) return;
  if (request.method === "POST") {
    if (url.pathname === "/share") event.respondWith(isForeign(request) ? Response.redirect("/", 303) : share(request));
    else if (["/sign-out", "/admin/logout/"].includes(url.pathname)) event.respondWith(signOut(event));
  } else if (request.method === "GET" && FILES.has(url.pathname)) {
    event.respondWith(file(request));
  } else if (request.method === "GET" && request.mode === "navigate" && isChat(url.pathname)) {
    event.respondWith(page(event));
  }
});

addEventListener("message", ({ data }) => {
  if (data?.type === "reached") reachedAt = performance.now();
});

function isChat(path) {
  return path === "/" || /^\/c\/[\w-]{22}$/.test(path);
}

async function fill() {
  const cache = await caches.open(KEPT);
  await cache.addAll([GIVEN.shell, ...GIVEN.files].map((url) => new Request(url, { cache: "no-cache" })));
}

async function forget(isOld) {
  const names = (await caches.keys()).filter((name) => name.startsWith("latchkey-"));
  await Promise.all(names.filter(isOld).map((name) => caches.delete(name)));
}

async function file(request) {
  const kept = await caches.match(request, { cacheName: KEPT });
  return kept ?? fetch(request);
}

/** A page of the chat, always from the gateway; the shell where that cannot be reached in time. */
async function page(event) {
  const asked = fetch(event.request).catch((error) => error);
  const found = await Promise.race([asked, tooLate(event.request)]);
  if (found instanceof Response && !AWAY.has(found.status)) {
    // Signing out emptied the cache; who is back needs it again.
    if (found.ok) event.waitUntil(caches.has(KEPT).then((has) => has || fill().catch(() => {})));
    return found;
  }
  const shell = await caches.match(GIVEN.shell, { cacheName: KEPT });
  if (shell !== undefined) return shell;
  const answer = await asked;
  if (answer instanceof Response) return answer;
  throw answer;
}

/** Settles when a page is waited for no longer. A page that is reloaded is seen meanwhile; and one
 * that takes its time would give way to the shell, which reaches the gateway, again and again. */
function tooLate({ cache }) {
  const isWaitedFor = RELOADS.has(cache) || performance.now() - reachedAt < REACHED;
  return new Promise((resolve) => isWaitedFor || setTimeout(resolve, PATIENCE));
}

async function signOut(event) {
  const answer = await fetch(event.request);
  await forget(() => true);
  event.waitUntil(clear());
  return answer;
}

async function clear() {
  const shown = await registration.getNotifications();
  for (const each of shown) each.close();
  await navigator.clearAppBadge?.().catch(() => {});
}

/** Whether a page of another site posts here. An app of the system has no origin, or ours. */
function isForeign({ headers }) {
  return ![location.origin, "null", null].includes(headers.get("origin"));
}

/** Put aside what another app shares, and open the chat, which takes it as a draft. */
async function share(request) {
  try {
    const form = await request.formData();
    const texts = ["title", "text", "url"].map((name) => String(form.get(name) ?? "").trim());
    const words = texts.filter((each, index) => each && texts.indexOf(each) === index);
    const files = form.getAll("files").filter((each) => each instanceof File).slice(0, MOST_SHARED);
    await caches.delete(SHARED);
    const cache = await caches.open(SHARED);
    const said = {
      text: words.join("\n"),
      files: files.map(({ name, type }) => ({ name, type })),
      at: Date.now(),
    };
    await cache.put("/shared/text", Response.json(said));
    await Promise.all(files.map((each, index) => cache.put(`/shared/${index}`, new Response(each))));
    return Response.redirect("/?shared=here", 303);
  } catch {
    return Response.redirect("/?shared=lost", 303);
  }
}

addEventListener("push", (event) => {
  event.waitUntil(show(read(event.data)));
});

/** What the gateway sent: {tag, title, body, url, at, actions: [{title, url}]}. */
function read(data) {
  try {
    const found = data.json();
    return typeof found.title === "string" && typeof found.tag === "string" ? found : null;
  } catch {
    return null;
  }
}

async function show(said) {
  if (said === null) return;
  const actions = (said.actions ?? []).slice(0, 2);
  await registration.showNotification(said.title, {
    body: said.body,
    tag: said.tag, // what came twice is shown once
    icon: GIVEN.icon,
    badge: GIVEN.badge,
    timestamp: said.at,
    data: {
      url: said.url,
      isChat: isChat(said.url),
      actions: actions.map(({ url }) => url),
    },
    actions: actions.map(({ title }, index) => ({ action: String(index), title })),
  });
  const shown = await registration.getNotifications();
  await navigator.setAppBadge?.(shown.length).catch(() => {});
}

addEventListener("pushsubscriptionchange", (event) => {
  event.waitUntil(renew(event.newSubscription));
});

/** The address of this browser has changed: tell the gateway the new one, unless it was removed. */
async function renew(given) {
  const { token } = await (await fetch("/chat/push/browsers")).json();
  if (!token) return; // signed out
  const post = async (path, said) => {
    const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
    return (await fetch(path, { method: "POST", headers, body: JSON.stringify(said) })).json();
  };
  const manager = registration.pushManager;
  const { key } = await post("/chat/push/key", {});
  const made =
    given ??
    (await manager.getSubscription()) ??
    (await manager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
  const { endpoint, keys } = made.toJSON();
  const { removed } = await post("/chat/push/subscriptions", { endpoint, keys, by: "worker" });
  if (removed) await made.unsubscribe();
}

addEventListener("notificationclick", (event) => {
  const { action, notification } = event;
  notification.close();
  const { url, actions } = notification.data ?? {};
  event.waitUntil(open((action && actions?.[Number(action)]) || url || "/"));
});

/** Bring a page of the chat to the front and open the conversation there; else open a window. */
async function open(path) {
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin) return;
  const windows = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const pages = windows.filter((each) => isChat(new URL(each.url).pathname));
  const here = pages.find((each) => new URL(each.url).pathname === url.pathname) ?? pages[0];
  if (here === undefined || !isChat(url.pathname)) {
    await clients.openWindow(url.href);
    return;
  }
  await here.focus().catch(() => {}); // a browser that does not let it shows it in its bar
  here.postMessage({ type: "open", session: url.pathname.split("/")[2] ?? null });
}
