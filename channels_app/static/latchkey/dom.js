// How elements are made. Text is always text; HTML comes only from our own server, which has
// sanitised it, through the one Trusted Types policy the page's CSP allows.

const SERVICE_WORKER = "/sw.js";
// An iPad calls itself a Macintosh; of these none has a touch screen.
const { userAgent = "", maxTouchPoints = 0 } = globalThis.navigator ?? {};
export const IS_IOS = /iPhone|iPad/.test(userAgent) || (/Macintosh/.test(userAgent) && maxTouchPoints > 1);

const policy = globalThis.trustedTypes?.createPolicy("latchkey", {
  createHTML: (html) => html,
  createScriptURL: () => SERVICE_WORKER, // the one script that a page may start by address
});

/** Whether one writes with fingers. */
export const isPhone = () => matchMedia("(pointer: coarse)").matches;

/** Whether an input method composes: then Enter chooses a word. Safari says it by the code. */
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

/** Whether a key sends what is written; on a phone Enter begins a new line. */
export function isSending(event) {
  if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return false;
  return event.ctrlKey || event.metaKey || !isPhone();
}

/** Focus the message box, at its end; not on a phone, whose keyboard would come up unasked. */
export function focusBox() {
  const box = document.querySelector("#composer-text");
  if (isPhone() || box === document.activeElement) return;
  box.focus({ preventScroll: true });
  box.setSelectionRange(box.value.length, box.value.length);
}

/** An element: el("a.link", {href}, "text", child, …). Null children are left out. */
export function el(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An icon; decoration, so readers skip it. */
export function icon(name) {
  return el(`span.icon.icon-${name}`, { "aria-hidden": "true" });
}

/** What a press does; a double click does it once, as its second half meets what came into the place. */
export const onPress = (act) => (event) => event.detail < 2 && act(event);

/** A button that shows an icon and says `label`. */
export function iconButton(name, label, onclick, more = {}) {
  const attributes = { type: "button", "aria-label": label, title: label, onclick, ...more };
  return el("button.icon-button", attributes, icon(name));
}

/** Fill an element with HTML that our server sanitised. */
export function setServerHtml(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
}

/** What is in an element, as HTML. */
export function htmlIn(element) {
  return element.innerHTML;
}

/** Register the service worker; rejects where none may be. */
export function registerServiceWorker() {
  const address = policy ? policy.createScriptURL(SERVICE_WORKER) : SERVICE_WORKER;
  return navigator.serviceWorker.register(address, { scope: "/", updateViaCache: "none" });
}

/** How the page scrolls to a place: at once for people who want no motion, which a script must ask. */
export function scrolling() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
}

/** An http(s) address, or null. */
export function webUrl(address) {
  try {
    const url = new URL(address, location.href);
    return /^https?:$/.test(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/** An address that leads to this gateway, at the host where the page was opened, or null. */
export function ownUrl(address) {
  const url = webUrl(address);
  if (url?.origin === document.body.dataset.gateway) return new URL(location.origin + url.pathname + url.search);
  return url?.origin === location.origin ? url : null;
}
