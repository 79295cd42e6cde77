// Before the first paint, so that a dark page never flashes white. Not a module for that reason.
(() => {
  try {
    document.documentElement.dataset.theme = localStorage.getItem("latchkey.theme") ?? "auto";
    if (localStorage.getItem("latchkey.sidebar") !== "closed" && innerWidth > 768) {
      document.documentElement.classList.add("sidebar-open");
    }
  } catch {
    document.documentElement.dataset.theme = "auto";
  }
})();
