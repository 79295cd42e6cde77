// Names for the boxes that the admin's library of choices builds in place of a select.

const BUILT = ".select2-container";

/** Give a built box, and the field of its search, the name of its select's label. */
function name(box) {
  const select = box.previousElementSibling;
  const label = select?.getAttribute?.("aria-label") ?? select?.labels?.[0]?.textContent.trim();
  if (!label) return;
  const parts = ".select2-selection--single, .select2-selection__rendered[role], .select2-search__field";
  for (const part of box.querySelectorAll(parts)) part.setAttribute("aria-label", label);
}

/** The list of choices opens at the end of the page, with a field of its own. */
function nameSearch(box) {
  const opened = document.querySelector(".select2-container--open:has(.select2-selection)");
  const label = opened?.querySelector("[aria-label]")?.getAttribute("aria-label");
  const field = box.querySelector(".select2-search--dropdown .select2-search__field");
  if (field && label) field.setAttribute("aria-label", label);
}

function nameIn(root) {
  const built = root.matches?.(BUILT) ? [root] : root.querySelectorAll(BUILT);
  for (const box of built) {
    name(box);
    nameSearch(box);
  }
}

nameIn(document);
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) nameIn(node);
  }
}).observe(document.body, { childList: true, subtree: true });
