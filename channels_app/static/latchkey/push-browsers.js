// The browsers of a person that have notifications, in the settings: each with a button to remove it.

import { call } from "./api.js";
import { el } from "./dom.js";
import { filled, gettext, LOCALE } from "./texts.js";

const DAY = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium" });

/** Fill the place with the list of now. onRemove is called with one of the list. */
export async function showBrowsers(place, onRemove) {
  const { browsers } = await call("/chat/push/browsers").catch(() => ({ browsers: [] }));
  place.hidden = browsers.length === 0;
  place.replaceChildren(el("h3", {}, gettext("Browsers with notifications")), ...browsers.map(row));

  function row(browser) {
    const since = filled(gettext("Since {date}"), { date: DAY.format(new Date(browser.since)) });
    const words = browser.is_here ? gettext("This browser") : since;
    const label = filled(gettext("Remove {name}"), { name: browser.name });
    const onclick = () => onRemove(browser);
    return el(
      "div.row",
      {},
      el("span", {}, browser.name, el("small", {}, words)),
      el("button.button", { type: "button", "aria-label": label, onclick }, gettext("Remove")),
    );
  }
}
