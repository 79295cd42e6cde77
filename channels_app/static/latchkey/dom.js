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

/** Whether a key sends what is written; while an input method composes, Enter chooses a word. */
export function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

/** Focus the message box, at its end; not on a phone, whose keyboard would come up unasked. */
export function focusBox() {
  if (!matchMedia("(pointer: fine)").matches) return;
  const box = document.querySelector("#composer-text");
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

/** A button that shows an icon and says `label`. */
export function iconButton(name, label, onclick, more = {}) {
  const attributes = { type: "button", "aria-label": label, title: label, onclick, ...more };
  return el("button.icon-button", attributes, icon(name));
}

/** Fill an element with HTML that our server sanitised. */
export function setServerHtml(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
}

/** The address of the service worker, as `register` takes it. */
export function serviceWorkerUrl() {
  return policy ? policy.createScriptURL(SERVICE_WORKER) : SERVICE_WORKER;
}

/** How the page scrolls to a place: at once for people who want no motion, which a script must ask. */
export function scrolling() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
}

/** An address that leads to this gateway, or null. */
export function ownUrl(address) {
  try {
    const url = new URL(address, location.href);
    return url.origin === location.origin ? url : null;
  } catch {
    return null;
  }
}

/** An http(s) address, or null. */
export function webUrl(address) {
  try {
    const url = new URL(address, location.href);
    return ["http:", "https:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}
