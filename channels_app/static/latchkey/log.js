// The conversation on the page: turns in order, scrolled to the end while the user is there, the
// welcome, the title, the state of the connection, and announcements for screen readers.

import { copyPlainly } from "./copying.js";
import { el, icon, scrolling } from "./dom.js";
import { filled, gettext, LANGUAGE } from "./texts.js";
import { greeting, shortTime } from "./time.js";

const NEAR_END = 96;
const MOMENT = 1000;

export class Log {
  #scroll = document.querySelector("#scroll");
  #list = document.querySelector("#log");
  #welcome = document.querySelector("#welcome");
  #title = document.querySelector("#title");
  #toEnd = document.querySelector("#to-end");
  #earlier = document.querySelector("#earlier");
  #announcer = document.querySelector("#announcer");
  #connection = document.querySelector("#connection");
  #following = true;
  #late = null;
  #unpainted = new Map();
  #update;

  /** on: {suggest(text)}: a suggestion of the welcome was chosen; {update(run, key)}: paint part `key` of a run. */
  constructor({ suggest, update }) {
    this.#update = update;
    this.#scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#toEnd.addEventListener("click", () => this.toEnd({ smooth: true }));
    // The place becomes smaller, too: by a keyboard, or by a long message in the box.
    const resized = new ResizeObserver(() => this.#following && this.toEnd());
    for (const node of [this.#list, this.#scroll]) resized.observe(node);
    for (const name of ["click", "focusin"]) this.#list.addEventListener(name, ({ target }) => this.#unfolded(target));
    this.#list.addEventListener("copy", copyPlainly);
    for (const button of this.#welcome.querySelectorAll("[data-suggest]")) {
      button.addEventListener("click", () => suggest(button.dataset.suggest));
    }
  }

  clear({ loading }) {
    this.#list.replaceChildren();
    this.#earlier.hidden = true;
    this.#following = true;
    if (loading) this.#list.append(el("p.opening", {}, gettext("Opening the chat…")));
  }

  failed(message, again) {
    const button = el("button.button", { type: "button", onclick: again }, icon("retry"), gettext("Try again"));
    this.#list.replaceChildren(el("div.opening", {}, el("p", {}, message), button));
  }

  add(node, { first = false } = {}) {
    if (first) this.#list.prepend(node);
    else this.#list.append(node);
  }

  /** Add older turns above without moving what is being read. */
  prepending(add) {
    const before = this.#scroll.scrollHeight - this.#scroll.scrollTop;
    add();
    this.#scroll.scrollTop = this.#scroll.scrollHeight - before;
  }

  /** Offer older turns: `load` is called once, also when the button is pressed twice. */
  offerEarlier(load) {
    if (load === null && this.#earlier === document.activeElement) this.#scroll.focus({ preventScroll: true });
    this.#earlier.hidden = load === null;
    this.#earlier.onclick = () => {
      this.#earlier.onclick = null;
      load();
    };
  }

  /** Change the page and keep it scrolled to the end, if it was. */
  keepAtEnd(change) {
    change();
    if (this.#following) this.toEnd();
    else this.#scrolled();
  }

  /** Paint part `key` of a run with the next picture of the screen, however many tokens come. */
  paintSoon(run, key) {
    if (this.#unpainted.size === 0) requestAnimationFrame(() => this.paint());
    if (!this.#unpainted.has(run)) this.#unpainted.set(run, new Set());
    this.#unpainted.get(run).add(key);
  }

  paint() {
    const changed = [...this.#unpainted];
    this.#unpainted.clear();
    this.keepAtEnd(() => {
      for (const [run, keys] of changed) for (const key of keys) this.#update(run, key);
    });
  }

  toEnd({ smooth = false } = {}) {
    this.#following = true;
    this.#toEnd.hidden = true;
    const behavior = smooth ? scrolling() : "instant";
    this.#scroll.scrollTo({ top: this.#scroll.scrollHeight, behavior });
  }

  /** Scroll by a page: -1 is up. */
  page(direction) {
    this.#scroll.scrollBy({ top: direction * 0.9 * this.#scroll.clientHeight, behavior: scrolling() });
  }

  /** A block that a person unfolds is read from its beginning: its end is not followed. */
  #unfolded(target) {
    if (!target.closest("summary, .fold, .source-text")) return;
    this.#following = false;
    requestAnimationFrame(() => this.#scrolled());
  }

  #scrolled() {
    const left = this.#scroll.scrollHeight - this.#scroll.scrollTop - this.#scroll.clientHeight;
    this.#following = left < NEAR_END;
    this.#toEnd.hidden = this.#following;
  }

  showWelcome(shown) {
    this.#welcome.hidden = !shown;
    const name = document.body.dataset.firstName;
    const words = greeting(new Date().getHours());
    document.querySelector("#greeting").textContent = name ? filled(gettext("{greeting}, {name}"), { greeting: words, name }) : words;
  }

  /** Times of a page that was left open may be of another day. */
  renewTimes() {
    for (const node of this.#list.querySelectorAll("time")) node.textContent = shortTime(new Date(node.dateTime));
  }

  setTitle(title) {
    this.#title.textContent = title || gettext("New chat");
    document.title = title ? `${title} · Latchkey` : "Latchkey";
  }

  /** Announce a text to screen readers, in the language of the interface. */
  announce(text, language = LANGUAGE) {
    this.#announcer.lang = language;
    this.#announcer.textContent = text;
  }

  /** Announce the answer of a turn, if there is one, in its own language where that is known. */
  speak(turn) {
    this.announce(turn?.spoken() ?? "", turn?.language || LANGUAGE);
  }

  connection(state) {
    const words = {
      connecting: gettext("Connecting…"),
      waiting: gettext("No connection. Trying again…"),
      blocked: gettext("The gateway answers, but no WebSocket opens: are too many tabs open, or does a proxy let none through? Trying again…"),
    };
    this.#connection.textContent = words[state] ?? "";
    if (!words[state]) {
      clearTimeout(this.#late);
      this.#late = null;
      this.#connection.hidden = true;
    }
    // What is over in a moment is not shown: each page begins by connecting.
    else this.#late ??= setTimeout(() => (this.#connection.hidden = false), MOMENT);
  }
}
