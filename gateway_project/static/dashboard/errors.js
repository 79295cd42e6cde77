// A form that was refused is shown where it is wrong, which may be some screens below its beginning.

const wrong = document.querySelector("[aria-invalid=true], .errorlist, div.errornote");

wrong?.scrollIntoView({ block: "center" });
wrong?.focus({ preventScroll: true });

// Sent twice, as by a double click while the gateway is slow, a form loses its first answer: that with a
// new key's secret, say.
let free = 0;
addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  if (event.timeStamp < free) event.preventDefault();
  free = event.timeStamp + 5000;
});
