// The picker of the assistant and the model: the assistant's picture and name in the header, and a menu of the
// assistants and models that the person may choose. The choice for a chat that has no session yet
// stays in the tab and goes with its first message.

import { call } from "./api.js";
import { el, icon } from "./dom.js";
import { tabStorage } from "./storage.js";
import { filled, gettext } from "./texts.js";

const NOTHING = { assistant_id: 0, model_id: 0 };
const FIELD = { assistants: "assistant_id", models: "model_id" };
const HEADING = { assistants: gettext("Assistant"), models: gettext("Model") };

export class Picker {
  #place = document.querySelector("#picker");
  #demo = document.querySelector("#demo-model");
  #session = null;
  #pending = NOTHING;
  #shown = null;
  #asked = 0;
  #button = null;
  #panel = null;
  #key = `latchkey.choice.${document.body.dataset.person}`;
  /** A promise while a choice is on its way: what is sent before it arrives is answered without. */
  saving = null;

  /** on: {announce(words), failed(message)}. */
  constructor(on) {
    this.on = on;
    document.addEventListener("pointerdown", (event) => {
      if (this.#panel && !this.#place.contains(event.target)) this.#close();
    });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.refresh();
    });
  }

  /** The choice that goes with the first message of a new chat; null in any other. */
  get wanted() {
    const isChosen = this.#pending.assistant_id || this.#pending.model_id;
    return this.#session === null && isChosen ? this.#pending : null;
  }

  /** Show the assistant of this chat (null: a new one). */
  open(session) {
    this.#close();
    this.#session = session;
    this.#pending = session === null ? this.#stored() : NOTHING;
    this.#shown = null;
    return this.refresh();
  }

  /** The new chat got its session; `sent` is the choice that its first message had. */
  adopt(session, sent) {
    const pending = this.#pending;
    this.#session = session;
    this.#keep(NOTHING);
    const { assistant_id: assistant, model_id: model } = sent ?? NOTHING;
    const isSent = pending.assistant_id === assistant && pending.model_id === model;
    return isSent ? this.refresh() : this.#save(pending);
  }

  /** Take a choice back that the gateway refused. */
  forget() {
    this.#keep(NOTHING);
    return this.refresh();
  }

  async refresh() {
    const asked = ++this.#asked;
    const query = this.#session ? { session: this.#session } : this.#pending;
    const found = await call(`/chat/assistants?${new URLSearchParams(query)}`).catch(() => null);
    if (asked !== this.#asked) return;
    if (found !== null) this.#show(found);
    else if (this.#shown === null) this.#place.hidden = true; // it shows another chat's
  }

  async #choose(list, id) {
    this.#close({ focus: true });
    const change = { [FIELD[list]]: id };
    if (this.#session !== null) return this.#save(change);
    this.#keep({ ...this.#pending, ...change });
    return this.refresh();
  }

  #save(change) {
    const asked = ++this.#asked;
    const address = `/chat/sessions/${this.#session}/assistant`;
    const saving = call(address, change)
      .then((found) => asked === this.#asked && this.#show(found))
      .catch((error) => {
        this.on.failed(error.message);
        return this.refresh();
      })
      .finally(() => {
        if (this.saving === saving) this.saving = null;
      });
    this.saving = saving;
    return saving;
  }

  #show(found) {
    const before = this.#shown;
    this.#shown = found;
    if (this.#session === null) this.#keep(checked(found, this.#pending));
    if (JSON.stringify(found) === JSON.stringify(before)) return; // a press on an entry goes on
    if (this.#demo) this.#demo.hidden = !found.is_embedded;
    this.#drawHeader();
    if (this.#panel) this.#fillPanel();
    const isNew = before && (before.name !== found.name || before.model !== found.model);
    if (isNew) this.on.announce(filled(gettext("{name} answers from now on."), { name: said(found) }));
  }

  #drawHeader() {
    const found = this.#shown;
    const isFocused = this.#button !== null && this.#button === document.activeElement;
    this.#place.hidden = false;
    if (found.assistants.length < 2 && found.models.length < 2) {
      this.#close();
      this.#button = null;
      this.#place.replaceChildren(el("span.picker-only", { dir: "auto", title: found.why }, found.name));
      return;
    }
    // The name is what is seen with two words between: a label of its own would hide what is seen.
    const unseen = (text) => el("span.visually-hidden", {}, text);
    const model = found.model ? [unseen(` ${gettext("with")} `), el("bdi.picker-model", {}, found.model)] : [];
    const name = el("bdi.picker-name", {}, found.name);
    const words = el("span.picker-words", {}, unseen(`${gettext("Assistant")}: `), name, ...model);
    const button = el(
      "button.picker-button",
      {
        type: "button",
        id: "picker-button",
        title: found.why,
        "aria-haspopup": "menu",
        "aria-expanded": String(this.#panel !== null),
        "aria-controls": "picker-menu",
        onclick: () => (this.#panel ? this.#close({ focus: true }) : this.#open()),
        onkeydown: (event) => this.#keyOnButton(event),
      },
      avatar(found),
      words,
      icon("chevron"),
    );
    if (this.#button) this.#button.replaceWith(button);
    else this.#place.replaceChildren(button);
    this.#button = button;
    if (isFocused) button.focus();
  }

  #keyOnButton(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    this.#open();
  }

  #open() {
    if (this.#panel || this.#shown === null) return;
    this.#panel = el("div.picker-panel", {
      onkeydown: (event) => this.#pressed(event),
      onfocusout: (event) => {
        if (event.relatedTarget && !this.#place.contains(event.relatedTarget)) this.#close();
      },
    });
    this.#fillPanel();
    this.#place.append(this.#panel);
    this.#button.setAttribute("aria-expanded", "true");
    this.#focus((item) => item.getAttribute("aria-checked") === "true");
    this.refresh();
  }

  #close({ focus = false } = {}) {
    if (!this.#panel) return;
    const panel = this.#panel;
    this.#panel = null; // first: the focus leaves it now
    if (focus) this.#button.focus();
    panel.remove();
    this.#button.setAttribute("aria-expanded", "false");
  }

  #fillPanel() {
    const focused = document.activeElement?.dataset?.option;
    const lists = Object.keys(FIELD).filter((list) => this.#shown[list].length > 1);
    const menu = el(
      "div.picker-menu",
      { id: "picker-menu", role: "menu", "aria-label": gettext("Assistant and model of this chat"), "aria-describedby": "picker-why" },
      ...lists.map((list) => this.#group(list)),
    );
    const why = el("p.picker-why", { id: "picker-why", dir: "auto" }, this.#shown.why);
    this.#panel.replaceChildren(menu, why);
    if (focused) this.#focus((item) => item.dataset.option === focused);
  }

  #group(list) {
    const heading = el("div.picker-heading", { "aria-hidden": "true" }, HEADING[list]);
    const items = this.#shown[list].map((option) => this.#item(list, option));
    return el("div.picker-group", { role: "group", "aria-label": HEADING[list] }, heading, ...items);
  }

  #item(list, option) {
    const usual = option.usual ? el("small", {}, ` ${gettext("usual here")}`) : null;
    return el(
      "button.picker-item",
      {
        type: "button",
        role: "menuitemradio",
        tabindex: -1,
        "aria-checked": String(option.checked),
        "data-option": `${list}-${option.id}`,
        onclick: () => this.#choose(list, option.id),
      },
      list === "assistants" ? avatar(option) : null,
      el("span.picker-words", {}, el("bdi.picker-name", {}, option.name), usual),
      icon("check"),
    );
  }

  #items() {
    return [...(this.#panel?.querySelectorAll("[role=menuitemradio]") ?? [])];
  }

  #focus(wanted) {
    const items = this.#items();
    (items.find(wanted) ?? items[0])?.focus();
  }

  #pressed(event) {
    event.stopPropagation(); // the page's keys rest: Escape would stop the answer
    if (event.key === "Escape" || event.key === "Tab") {
      // Tab goes on from the button.
      this.#close({ focus: true });
      if (event.key === "Tab") return;
    } else {
      const items = this.#items();
      const names = items.map((item) => item.querySelector(".picker-name").textContent);
      const next = moved(event, items.indexOf(document.activeElement), names);
      if (next === null) return;
      items[next].focus();
    }
    event.preventDefault();
  }

  #stored() {
    try {
      const found = JSON.parse(tabStorage.getItem(this.#key) ?? "{}");
      const number = (name) => (Number.isSafeInteger(found[name]) && found[name] > 0 ? found[name] : 0);
      return { assistant_id: number("assistant_id"), model_id: number("model_id") };
    } catch {
      return NOTHING;
    }
  }

  #keep(pending) {
    this.#pending = pending;
    if (pending.assistant_id || pending.model_id) tabStorage.setItem(this.#key, JSON.stringify(pending));
    else tabStorage.removeItem(this.#key);
  }
}

/** The choice that the gateway took: what was withdrawn meanwhile is not part of it. */
function checked(found, pending) {
  const taken = (list, id) => (found[list].some((each) => each.checked && each.id === id) ? id : 0);
  return {
    assistant_id: taken("assistants", pending.assistant_id),
    model_id: taken("models", pending.model_id),
  };
}

/** The entry to go to from entry `at` by a key (ARIA menu pattern); null for a key that is none of the menu's. */
export function moved({ key, altKey, ctrlKey, metaKey }, at, names) {
  const count = names.length;
  if (count === 0 || altKey || ctrlKey || metaKey) return null;
  const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 }[key];
  if (to !== undefined) return (to + count) % count;
  if ([...key].length !== 1 || key === " ") return null;
  const begins = (name) => name.trim().toLowerCase().startsWith(key.toLowerCase());
  const step = names.findIndex((_, offset) => begins(names[(at + 1 + offset) % count]));
  return step < 0 ? null : (at + 1 + step) % count;
}

function said({ name, model }) {
  return model ? filled(gettext("{name} with {model}"), { name, model }) : name;
}

function avatar({ name, picture }) {
  if (picture) return el("img.avatar", { src: picture, alt: "", width: 28, height: 28 });
  return el("span.avatar", { "aria-hidden": "true" }, ([...name.trim()][0] ?? "?").toUpperCase());
}
