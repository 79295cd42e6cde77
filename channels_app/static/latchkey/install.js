// The chat as an app: registers the service worker, and offers to install where the browser does.

import { IS_IOS, registerServiceWorker } from "./dom.js";
import { gettext } from "./texts.js";

export class App {
  #row = document.querySelector("#install-row");
  #button = document.querySelector("#install");
  #prompt = null;

  constructor() {
    addEventListener("beforeinstallprompt", (event) => {
      event.preventDefault();
      this.#prompt = event;
      this.#show(true);
    });
    addEventListener("appinstalled", () => this.#show(false));
    this.#button?.addEventListener("click", () => this.#install());
  }

  /** Register the service worker; it updates itself whenever a page is opened. */
  start() {
    if (!("serviceWorker" in navigator)) return;
    registerServiceWorker().catch(() => {}); // a private window, or no secure connection: the page works without
    // iOS has no prompt: there the person does it in the menu of Safari.
    if (IS_IOS && !navigator.standalone && this.#row) {
      this.#row.querySelector("small").textContent = gettext("In the menu “Share”: Add to Home Screen.");
      this.#button.hidden = true;
      this.#show(true);
    }
  }

  #show(isOffered) {
    if (this.#row) this.#row.hidden = !isOffered;
  }

  async #install() {
    const prompt = this.#prompt;
    if (prompt === null) return;
    this.#prompt = null; // it can be used once
    this.#show(false);
    await prompt.prompt();
  }
}
