// A form that was refused is shown where it is wrong, which may be some screens below its beginning.

const wrong = document.querySelector("[aria-invalid=true], .errorlist, div.errornote");

// Django's own script, which comes whenever it comes, moves the focus of a new row's form to its beginning.
addEventListener("load", () => {
  wrong?.scrollIntoView({ block: "center" });
  wrong?.focus({ preventScroll: true });
});
