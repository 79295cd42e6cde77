// A form that was refused is shown where it is wrong, which may be some screens below its beginning.

const wrong = document.querySelector("[aria-invalid=true], .errorlist, div.errornote");

wrong?.scrollIntoView({ block: "center" });
wrong?.focus({ preventScroll: true });
