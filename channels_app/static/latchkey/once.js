// A form is sent once: pressed again while the gateway is slow, it would lose the first answer, which may have
// been the good one, as of a link that works once.

const PAUSE = 5000;
let free = 0;

addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method === "get") return; // a search may be asked otherwise
  if (event.timeStamp < free) event.preventDefault();
  else free = event.timeStamp + PAUSE;
});
// Back on the page of a form, which the browser kept.
addEventListener("pageshow", ({ persisted }) => {
  if (persisted) free = 0;
});
