// The pages of the first run: forms that stay on the page while they are tried, a first
// conversation, and waiting for the owner's first message to a bot. Everything but the conversation
// works without this script.

import { call } from "./api.js";
import { Trial } from "./first-message.js";
import { filled, gettext, ngettext } from "./texts.js";

const STATE_SECONDS = 2;

/** A form of a step: posted here, with errors beside their fields. */
class StepForm {
  constructor(form) {
    this.form = form;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(event.submitter);
    });
  }

  async submit(button) {
    const working = button?.dataset.working;
    const words = button?.textContent;
    this.#busy(button, working);
    try {
      const answer = await this.post({ do: button?.value || "save" });
      this.show(answer.errors ?? {});
      if (answer.next) location.assign(answer.next);
    } catch (error) {
      this.show({ __all__: [error.message] });
    } finally {
      this.#busy(button, null, words);
    }
  }

  async post(more) {
    const body = new FormData(this.form);
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    const options = { method: "POST", body, headers: { Accept: "application/json" }, credentials: "same-origin" };
    const response = await fetch(location.pathname, options).catch(() => {
      throw new Error(gettext("The gateway cannot be reached. Try again in a moment."));
    });
    const answer = await response.json().catch(() => null);
    if (answer === null) throw new Error(filled(gettext("The gateway answered with HTTP {status}. Reload the page and try again."), response));
    return answer;
  }

  /** Show errors by field, and go to the first of them. */
  show(errors) {
    let first = null;
    for (const place of this.form.querySelectorAll("[data-error]")) {
      const name = place.dataset.error;
      const found = errors[name] ?? [];
      place.textContent = found.join(" ");
      place.hidden = found.length === 0;
      const inputs = this.form.querySelectorAll(`[name="${name}"], [data-for="${name}"]`);
      for (const input of inputs) {
        if (input.type === "radio") continue;
        if (found.length) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
      const shown = [...inputs].find((input) => !input.hidden && !input.disabled);
      if (found.length && first === null) first = shown ?? place;
    }
    const fold = first?.closest("details");
    if (fold) fold.open = true;
    first?.focus?.();
    first?.scrollIntoView?.({ block: "nearest" });
  }

  #busy(button, working, words) {
    const isBusy = working !== null;
    for (const each of this.form.querySelectorAll("button")) each.disabled = isBusy;
    if (!button) return;
    if (isBusy) button.setAttribute("aria-busy", "true");
    else button.removeAttribute("aria-busy");
    const text = isBusy ? working : words;
    if (text) button.textContent = text;
    if (isBusy && working) announce(working);
  }
}

/** The first step: which fields a provider has, and the list of its models. */
class ModelForm extends StepForm {
  #asked = "";
  #listing = 0;

  constructor(form) {
    super(form);
    this.select = form.querySelector("#model-select");
    this.input = form.querySelector("#id_model");
    this.names = form.querySelector("#model-names");
    this.state = form.querySelector("[data-list-state]");
    this.select.dataset.for = "model";
    for (const radio of form.elements.kind) radio.addEventListener("change", () => this.#chosen());
    for (const name of ["key", "base_url", "allow_private"]) {
      form.elements[name].addEventListener("change", () => this.#listSoon());
    }
    this.select.addEventListener("change", () => this.#typed());
    this.#showFields(); // one may have been chosen before this script ran
    const names = [...this.names.options].map((each) => each.value);
    if (names.length) this.#offer(names);
    else this.#listSoon();
  }

  get kind() {
    return this.form.querySelector("[name=kind]:checked");
  }

  field(name) {
    return this.form.querySelector(`[data-field="${name}"]`);
  }

  async submit(button) {
    if (button?.value === "list") await this.list();
    else await super.submit(button);
  }

  /** Another provider: its fields, empty. */
  #chosen() {
    this.#showFields();
    this.form.elements.key.value = "";
    this.form.elements.base_url.value = "";
    this.form.elements.allow_private.checked = false;
    this.input.value = "";
    this.#listing += 1; // an answer that is still on its way is about another provider
    this.#offer([]);
    this.show({});
    this.#listSoon();
  }

  #showFields() {
    const { address, ownAddress, hasKey, needsKey, keyPage } = this.kind.dataset;
    this.field("base_url").hidden = this.field("allow_private").hidden = !address;
    this.form.elements.base_url.placeholder = ownAddress || "http://192.168.1.20:8080/v1";
    this.field("key").hidden = !hasKey;
    this.form.querySelector("[data-optional]").hidden = Boolean(needsKey);
    const link = this.form.querySelector(".key-page");
    link.hidden = !keyPage;
    if (keyPage) link.href = keyPage;
  }

  /** Ask for the models when what that needs is there. */
  #listSoon() {
    const { address, ownAddress, needsKey } = this.kind.dataset;
    const { key, base_url: base } = this.form.elements;
    if ((needsKey && !key.value) || (address && !ownAddress && !base.value)) return;
    const asked = [this.kind.value, key.value, base.value, this.form.elements.allow_private.checked].join(" ");
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.list({ quiet: true });
  }

  /** Fill the list of models. `quiet`: the person did not ask, so the focus stays where it is. */
  async list({ quiet = false } = {}) {
    const listing = ++this.#listing;
    this.state.textContent = gettext("Asking for the models…");
    const answer = await this.post({ do: "list" }).catch((error) => ({ errors: { __all__: [error.message] } }));
    if (quiet) await released();
    if (listing !== this.#listing) return;
    const focus = document.activeElement;
    this.show(answer.errors ?? {});
    if (quiet) focus?.focus?.();
    this.#offer(answer.models ?? []);
  }

  #offer(names) {
    const wanted = this.input.value || (names.length === 1 ? names[0] : "");
    const hasList = names.length > 0;
    const options = names.map((name) => new Option(name, name, false, name === wanted));
    const choose = new Option(gettext("Choose a model"), "", false, !names.includes(wanted));
    choose.disabled = true;
    const other = new Option(gettext("Another name…"), "");
    other.dataset.other = "1";
    this.select.replaceChildren(choose, ...options, other);
    this.names.replaceChildren(...names.map((name) => new Option(name, name)));
    const isTyping = this.input === document.activeElement && this.input.value !== "";
    this.#useList(hasList && !isTyping); // who types has the names below the box
    this.state.textContent = hasList ? filled(ngettext("{count} model.", "{count} models.", names.length), { count: names.length }) : "";
  }

  #typed() {
    if (!this.select.selectedOptions[0]?.dataset.other) return;
    this.#useList(false);
    this.input.focus();
  }

  #useList(shown) {
    const button = this.form.querySelector("[data-list]");
    const isFocused = [this.input, button].includes(document.activeElement);
    this.select.hidden = this.select.disabled = !shown;
    this.input.hidden = this.input.disabled = shown;
    this.select.name = shown ? "model" : "";
    this.field("model").querySelector("label").htmlFor = shown ? this.select.id : this.input.id;
    button.hidden = shown;
    this.select.parentElement.classList.toggle("whole", shown);
    if (shown && isFocused) this.select.focus(); // what is hidden loses it
  }
}

/** The third step, once there is a bot: the code, and waiting until it was sent. */
class Waiting {
  constructor(root) {
    this.root = root;
    this.code = root.querySelector("[data-code]");
    if (this.code) this.#offerCode();
    if (root.dataset.known) return;
    root.querySelector("[data-phone-waiting]").hidden = false;
    if (this.code) this.makeCode();
    this.wait();
  }

  #offerCode() {
    this.root.querySelector("[data-code-form]").addEventListener("submit", (event) => {
      event.preventDefault();
      this.makeCode();
    });
    const copy = this.root.querySelector("[data-copy-code]");
    copy.hidden = !navigator.clipboard;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.code.textContent);
      announce(gettext("Copied."));
      copy.textContent = gettext("Copied");
    });
  }

  async makeCode() {
    const { command, mark } = await call("/chat/link-code", {}).catch((error) => ({ command: error.message }));
    this.code.textContent = command;
    this.mark = mark;
    this.#ended(false);
    this.root.querySelector("[data-code-form] button").textContent = gettext("Make a new one");
  }

  /** A code made elsewhere, as by a second window, ends this one. */
  #ended(isOver) {
    this.root.querySelector("[data-code-ended]").hidden = !isOver;
    this.root.querySelector("[data-code-line]").hidden = isOver;
  }

  async wait() {
    const { mark } = this;
    const found = await call("/first-run/phone/state").catch(() => null);
    if (found?.is_known) {
      this.known();
      return;
    }
    const problem = this.root.querySelector("[data-phone-problem]");
    if (found && mark && mark === this.mark) this.#ended(found.mark !== mark);
    problem.hidden = found?.status !== "error";
    if (found) problem.textContent = found.text;
    setTimeout(() => this.wait(), STATE_SECONDS * 1000);
  }

  known() {
    for (const name of ["unknown", "later"]) this.root.querySelector(`[data-phone-${name}]`).hidden = true;
    for (const name of ["known", "finish"]) this.root.querySelector(`[data-phone-${name}]`).hidden = false;
    this.root.querySelector("[data-phone-finish] button").focus();
  }
}

let isPressed = false;
addEventListener("pointerdown", () => { isPressed = true; }, true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { isPressed = false; }, true);

/** Resolve when no button of the pointer is pressed: a field that moves meanwhile loses its click. */
function released() {
  if (!isPressed) return Promise.resolve();
  return new Promise((resolve) => {
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(name, () => setTimeout(resolve), { once: true, capture: true }); // after the click
    }
  });
}

function announce(words) {
  document.querySelector("#announcer").textContent = words;
}

const form = document.querySelector("form[data-step]");
if (form?.dataset.step === "model") new ModelForm(form);
else if (form) new StepForm(form);
const waiting = document.querySelector("[data-phone]");
if (waiting) new Waiting(waiting);
const trial = document.querySelector("[data-try]");
if (trial) new Trial(trial, { announce }).start();
