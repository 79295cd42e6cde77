// Before the first paint, so that a dark page never flashes white. Not a module for that reason.
(() => {
  const root = document.documentElement;
  // The browser's own bars know the system's theme alone.
  const colourBars = () => {
    for (const meta of document.querySelectorAll("meta[name=theme-color]")) {
      const scheme = root.dataset.theme === "auto" ? meta.media : root.dataset.theme;
      meta.content = scheme.includes("dark") ? "#1b1a18" : "#fcfbf9";
    }
  };
  new MutationObserver(colourBars).observe(root, { attributeFilter: ["data-theme"] });
  try {
    root.dataset.theme = localStorage.getItem("latchkey.theme") ?? "auto";
    if (localStorage.getItem("latchkey.sidebar") !== "closed" && innerWidth > 768) {
      root.classList.add("sidebar-open");
    }
  } catch {
    root.dataset.theme = "auto";
  }

  // What is pressed before the page's modules run waits for them: the last press is done anew after them.
  let again = () => {};
  const pressed = ({ target }) => {
    const button = target.closest?.("button[type=button]");
    if (button) again = () => button.click();
  };
  const typed = ({ target, key, shiftKey, isComposing, keyCode }) => {
    if (key !== "Enter" || shiftKey || isComposing || keyCode === 229) return;
    if (target.id !== "composer-text" || matchMedia("(pointer: coarse)").matches) return;
    const value = target.value.trimEnd(); // Enter may be pressed more than once
    again = () => {
      if (!value || target.value.trimEnd() !== value) return; // a draft came back, or more was written
      target.value = value;
      target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    };
  };
  addEventListener("click", pressed);
  addEventListener("keydown", typed);
  addEventListener("DOMContentLoaded", () => {
    removeEventListener("click", pressed);
    removeEventListener("keydown", typed);
    again();
  });
})();
