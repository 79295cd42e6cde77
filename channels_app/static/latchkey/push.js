// Notifications of this browser: enabled by a tap in the settings, for the person who tapped. What is
// shown, and what a tap on it does, is in service-worker.js.

import { call } from "./api.js";
import { el, IS_IOS, onPress, registerServiceWorker } from "./dom.js";
import { onSignOut } from "./offline.js";
import { browserStorage } from "./storage.js";
import { filled, gettext, LOCALE } from "./texts.js";

const ENABLED = "latchkey.push"; // the person who enabled them in this browser
const BLOCKED = gettext("Blocked in this browser: allow them in its settings for this page.");
const FAILED = gettext("This browser could not enable notifications. Try again in a moment.");
const IN_APP = gettext("On this device they need the installed app: in the menu “Share”, Add to Home Screen.");
const DAY = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium" });
const SUMMARY = gettext("Answers, reminders and requests, while no page is in view.");

export class Push {
  #row = document.querySelector("#push-row");
  #switch = document.querySelector("#push");
  #hide = document.querySelector("#push-hide");
  #words = document.querySelector("#push-words");
  #person = document.body.dataset.person;

  /** on: {open(session), failed(message)}. */
  constructor(on) {
    this.on = on;
  }

  start() {
    if (this.#row === null || !("serviceWorker" in navigator)) return;
    navigator.serviceWorker.addEventListener("message", ({ data }) => {
      if (data?.type === "open" && (data.session === null || typeof data.session === "string")) {
        this.on.open(data.session);
      }
    });
    document.addEventListener("visibilitychange", () => this.#read());
    this.#read();
    this.#switch.addEventListener("change", () => this.#changed());
    this.#hide.addEventListener("change", () => this.#hideText());
    onSignOut(() => this.#forget());
    for (const button of document.querySelectorAll("[data-open-settings]")) {
      button.addEventListener("click", () => this.#list());
    }
    this.#show();
    this.#resume();
  }

  get #isSupported() {
    return "PushManager" in window && "Notification" in window;
  }

  #show() {
    const isBlocked = this.#isSupported && Notification.permission === "denied";
    const isOn = this.#isSupported && Notification.permission === "granted" && this.#isMine;
    this.#switch.checked = isOn;
    this.#switch.disabled = !this.#isSupported || isBlocked;
    document.querySelector("#push-hide-row").hidden = !isOn;
    if (!this.#isSupported) this.#words.textContent = IN_APP;
    else this.#words.textContent = isBlocked ? BLOCKED : SUMMARY;
    this.#row.hidden = !this.#isSupported && !IS_IOS;
  }

  /** List the browsers of the person below the switch, each with a way to remove it. */
  async #list() {
    const { browsers } = await call("/chat/push/browsers").catch(() => ({ browsers: [] }));
    document.querySelector("#push-browsers")?.remove();
    if (browsers.length === 0) return;
    const title = gettext("Browsers with notifications");
    const rows = browsers.map((each) => browserRow(each, onPress(() => this.#remove(each))));
    this.#row.after(el("section.browsers", { id: "push-browsers", "aria-label": title }, el("h3", {}, title), ...rows));
  }

  async #remove({ id, is_here: isHere }) {
    try {
      if (isHere) await this.#disable();
      await call("/chat/push/remove", { id });
    } catch (error) {
      this.on.failed(error.message);
    }
    this.#show();
    await this.#list();
    this.#switch.focus(); // the button is gone
  }

  get #isMine() {
    return browserStorage.getItem(ENABLED) === this.#person;
  }

  async #changed() {
    this.#switch.disabled = true;
    try {
      if (this.#switch.checked) await this.#enable();
      else await this.#disable();
    } catch (error) {
      this.on.failed(error.status === undefined ? FAILED : error.message);
    }
    this.#show();
    await this.#list();
  }

  async #enable() {
    if ((await Notification.requestPermission()) !== "granted") return;
    localStorage.setItem(ENABLED, this.#person); // throws where a reload would not find it
    try {
      await this.#subscribe("tap");
    } catch (error) {
      this.#forget();
      throw error;
    }
  }

  async #disable() {
    this.#forget();
    const subscription = await this.#subscription();
    if (subscription === null) return;
    await call("/chat/push/remove", { endpoint: subscription.endpoint });
    await subscription.unsubscribe();
  }

  /** Tell the gateway of this browser: its address, and the session, may have changed. */
  async #resume() {
    if (!this.#isSupported || document.body.dataset.offline) return;
    try {
      if (Notification.permission === "granted" && this.#isMine) await this.#subscribe("page");
      else await (await this.#subscription())?.unsubscribe(); // that of another person
    } catch {
      // The next page tries again.
    }
  }

  /** by: the "tap" of the person, or the "page", which finds that it was removed elsewhere. */
  async #subscribe(by) {
    const { key } = await call("/chat/push/key", {});
    await registerServiceWorker(); // else none is ever ready
    const registration = await navigator.serviceWorker.ready;
    let subscription = await registration.pushManager.getSubscription();
    if (subscription !== null && !isOf(subscription, key)) {
      await subscription.unsubscribe();
      subscription = null;
    }
    subscription ??= await registration.pushManager.subscribe({
      userVisibleOnly: true,
      applicationServerKey: decoded(key),
    });
    const { endpoint, keys } = subscription.toJSON();
    const { removed } = await call("/chat/push/subscriptions", { endpoint, keys, by });
    if (!removed) return;
    this.#forget();
    await subscription.unsubscribe();
    this.#show();
  }

  async #subscription() {
    const registration = await navigator.serviceWorker.getRegistration("/");
    return (await registration?.pushManager?.getSubscription()) ?? null;
  }

  #forget() {
    browserStorage.removeItem(ENABLED);
  }

  async #hideText() {
    try {
      await call("/chat/push/settings", { hide_text: this.#hide.checked });
    } catch (error) {
      this.#hide.checked = !this.#hide.checked;
      this.on.failed(error.message);
    }
  }

  /** Who looks at the page needs no notifications of it any more. */
  async #read() {
    if (document.visibilityState !== "visible") return;
    navigator.clearAppBadge?.().catch(() => {});
    const registration = await navigator.serviceWorker.getRegistration("/");
    const shown = (await registration?.getNotifications?.()) ?? [];
    for (const each of shown) if (each.data?.isChat) each.close();
  }
}

function browserRow({ name, since, is_here: isHere }, onclick) {
  const words = isHere
    ? gettext("This browser")
    : filled(gettext("Since {date}"), { date: DAY.format(new Date(since)) });
  const label = filled(gettext("Remove {name}"), { name });
  const button = el("button.button", { type: "button", "aria-label": label, onclick }, gettext("Remove"));
  return el("div.row", {}, el("span", {}, name, el("small", {}, words)), button);
}

function isOf(subscription, key) {
  const own = subscription.options?.applicationServerKey;
  if (!own) return true;
  const wanted = decoded(key);
  const has = new Uint8Array(own);
  return has.length === wanted.length && has.every((byte, index) => byte === wanted[index]);
}

function decoded(base64url) {
  const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
