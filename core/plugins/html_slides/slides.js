(() => {
  "use strict";
  const root = document.documentElement;
  const slides = [...document.querySelectorAll(".slide")];
  const bar = document.querySelector("nav");
  const shown = document.querySelector("output");
  const forward = root.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
  const back = root.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
  let at = 0;
  let start = null;

  function show(number) {
    at = Math.max(0, Math.min(slides.length - 1, number));
    slides.forEach((slide, index) => slide.classList.toggle("on", index === at));
    shown.textContent = `${at + 1} / ${slides.length}`;
  }

  function present(on) {
    root.classList.toggle("show", on);
    bar.hidden = !on;
    if (!on) slides[at].scrollIntoView();
  }

  const keys = {
    [forward]: () => show(at + 1),
    [back]: () => show(at - 1),
    ArrowDown: () => show(at + 1),
    ArrowUp: () => show(at - 1),
    PageDown: () => show(at + 1),
    PageUp: () => show(at - 1),
    Home: () => show(0),
    End: () => show(slides.length - 1),
    Escape: () => present(!root.classList.contains("show")),
    n: () => root.classList.toggle("noted"),
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pressed = event.target.closest("button") !== null;
    if (event.key === " " && !pressed) {
      show(at + (event.shiftKey ? -1 : 1));
    } else if (Object.hasOwn(keys, event.key) && (root.classList.contains("show") || event.key === "Escape")) {
      keys[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  });
  addEventListener("touchstart", (event) => {
    root.classList.add("touched");
    start = event.touches.length === 1 ? event.touches[0] : null;
  }, { passive: true });
  addEventListener("touchend", (event) => {
    if (start === null || !root.classList.contains("show")) return;
    const way = event.changedTouches[0].clientX - start.clientX;
    const rise = event.changedTouches[0].clientY - start.clientY;
    start = null;
    if (Math.abs(way) < 40 || Math.abs(way) < Math.abs(rise)) return;
    show(at + (way < 0 === (root.dir !== "rtl") ? 1 : -1));
  });
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button !== null) show(at + Number(button.dataset.go));
  });
  show(0);
  present(true);
})();
