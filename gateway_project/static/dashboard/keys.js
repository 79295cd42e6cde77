// Parts of the admin's library that only a pointer presses, which the filter `accessible` made buttons.

const PRESSED = "[role=button][x-on\\:click]";
const FIRST = "a[href], [role=button], input:not([type=hidden]), select, button";
let opener = null;

/** The part that a button opens. */
const partOf = (button) => document.getElementById(button.getAttribute("aria-controls"));

/** The buttons that open and close the same part. */
function siblings(button) {
  return [...document.querySelectorAll(`[aria-controls="${button.getAttribute("aria-controls")}"]`)];
}

/** Lead the focus back from a part that was closed. */
function leave(button) {
  if (button.ariaExpanded === "false") button.focus();
}

/** Lead the focus into the part that a button opened; the library shows it within some frames. */
function enter(button, frames = 30) {
  const first = [...(partOf(button)?.querySelectorAll(FIRST) ?? [])].find((each) => each.tabIndex >= 0 && each.checkVisibility());
  if (!first) {
    if (frames) requestAnimationFrame(() => enter(button, frames - 1));
    return;
  }
  opener = button;
  first.focus();
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key === "Escape" && opener && partOf(opener)?.contains(target)) requestAnimationFrame(() => leave(opener));
  if (!["Enter", " "].includes(key) || !target.matches(PRESSED)) return;
  event.preventDefault();
  target.click();
  requestAnimationFrame(() => {
    if (target.ariaExpanded === "true") enter(target);
    else if (!target.checkVisibility()) siblings(target).find((each) => each.checkVisibility())?.focus();
  });
});
