// The texts of the interface in the page's language. The page loads Django's catalogue before its
// modules; without one (English) a text is its own translation. gettext and ngettext take literals:
// `make messages` finds them by that.

const catalogue = globalThis.django ?? {};

/** The translation of a text. */
export const gettext = catalogue.gettext ?? ((text) => text);

/** The translation of a text that depends on a number. */
export const ngettext = catalogue.ngettext ?? ((one, many, count) => (count === 1 ? one : many));

/** A text with values in place of its {names}. */
export function filled(text, values) {
  return text.replaceAll(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
}

/** The text around a value that is an element: what stands before {name}, the element, the rest. */
export function around(text, name, node) {
  const [before, ...after] = text.split(`{${name}}`);
  return [before, node, after.join(`{${name}}`)];
}

export const LANGUAGE = globalThis.document?.documentElement?.lang ?? "";

/** The locale of dates and numbers: the browser's own, if it is one of the page's language. */
export const LOCALE = localeOf(LANGUAGE, globalThis.navigator?.language ?? "");

function localeOf(page, browser) {
  const language = page.split("-")[0].toLowerCase();
  return page && browser.split("-")[0].toLowerCase() !== language ? page : undefined;
}
