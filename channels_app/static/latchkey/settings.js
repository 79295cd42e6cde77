// The settings dialog: theme (of this browser), language, progress lines and usage (of the person), sign-out.

import { call } from "./api.js";
import { browserStorage } from "./storage.js";
import { filled, ngettext } from "./texts.js";
import { showUsage } from "./usage.js";

const THEME = "latchkey.theme";

export class Settings {
  #dialog = document.querySelector("#settings");
  #progress = document.querySelector("#show-progress");

  /** on: {changed(), failed(message)}. */
  constructor(on) {
    this.on = on;
    for (const button of document.querySelectorAll("[data-open-settings]")) {
      button.addEventListener("click", () => this.open());
    }
    this.#progress.addEventListener("change", () => this.#saveProgress());
    const theme = browserStorage.getItem(THEME) ?? "auto";
    for (const choice of this.#dialog.querySelectorAll("input[name=theme]")) {
      choice.checked = choice.value === theme;
      choice.addEventListener("change", () => chooseTheme(choice.value));
    }
    for (const dialog of document.querySelectorAll("dialog")) closeOnBackdrop(dialog);
    this.#dialog.querySelector("#language").addEventListener("change", (event) => this.#chooseLanguage(event.target));
    this.#dialog.querySelector("#make-link-code")?.addEventListener("click", () => this.#link());
  }

  get showProgress() {
    return this.#progress.checked;
  }

  open() {
    this.#dialog.showModal();
    showUsage(this.#dialog.querySelector("#usage"));
  }

  /** The page comes anew in the language. */
  async #chooseLanguage(choice) {
    try {
      await call("/chat/settings", { language: choice.value });
      location.reload();
    } catch (error) {
      choice.value = [...choice.options].find((option) => option.defaultSelected)?.value ?? "";
      this.on.failed(error.message);
    }
  }

  async #link() {
    const shown = this.#dialog.querySelector("#link-code");
    try {
      const made = await call("/chat/link-code", {});
      shown.textContent = made.command;
      shown.hidden = false;
      const hint = ngettext(
        "Send this to the bot within {count} minute. Anyone who sends it is linked to your account.",
        "Send this to the bot within {count} minutes. Anyone who sends it is linked to your account.",
        made.minutes,
      );
      this.#dialog.querySelector("#link-hint").textContent = filled(hint, { count: made.minutes });
    } catch (error) {
      this.on.failed(error.message);
    }
  }

  async #saveProgress() {
    this.on.changed();
    try {
      await call("/chat/settings", { show_progress: this.#progress.checked });
    } catch (error) {
      this.#progress.checked = !this.#progress.checked;
      this.on.changed();
      this.on.failed(error.message);
    }
  }
}

function chooseTheme(theme) {
  browserStorage.setItem(THEME, theme);
  document.documentElement.dataset.theme = theme;
}

// Where the press began counts: a text that is selected by dragging may end outside.
function closeOnBackdrop(dialog) {
  let isOutside = false;
  dialog.addEventListener("pointerdown", ({ clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    isOutside = x < left || x > right || y < top || y > bottom;
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && isOutside) dialog.close();
  });
  for (const button of dialog.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => dialog.close());
  }
}
