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
})();
