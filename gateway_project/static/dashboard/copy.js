// The button that copies a secret. Without a clipboard, as over plain http, there is none.

const button = document.querySelector("[data-copy]");

button.hidden = !navigator.clipboard;
button.addEventListener("click", async () => {
  await navigator.clipboard.writeText(document.querySelector("[data-secret]").textContent);
  button.textContent = "Copied";
});
