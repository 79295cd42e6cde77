// The usage panel of the settings: tokens and cost of today and this month, and what budgets leave.

import { call } from "./api.js";
import { el } from "./dom.js";
import { around, filled, gettext, LOCALE } from "./texts.js";

const COUNT = new Intl.NumberFormat(LOCALE);
const SHORT = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumFractionDigits: 1 });
const LONG = 10_000_000; // from here on a row is wider than a phone
const MOMENT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });

/** Fill the panel with the figures of now. */
export async function showUsage(place) {
  try {
    const { periods, budgets } = await call("/chat/usage");
    place.replaceChildren(table(periods), ...budgets.map(budget));
  } catch (error) {
    place.replaceChildren(el("p", {}, `${gettext("Your usage could not be loaded.")} ${error.message}`));
  }
}

function table(periods) {
  const head = [gettext("Usage"), gettext("Tokens"), gettext("Cost")].map((name) => el("th", { scope: "col" }, name));
  const isEstimated = periods.some((each) => each.is_estimated);
  const note = isEstimated ? el("caption", {}, gettext("≈ A provider reported no usage: partly estimated.")) : null;
  return el("table", {}, note, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...periods.map(row)));
}

function row({ name, tokens, cost, is_estimated: isEstimated }) {
  const isLong = tokens >= LONG;
  const count = `${isEstimated ? "≈ " : ""}${(isLong ? SHORT : COUNT).format(tokens)}`;
  const whole = isLong ? COUNT.format(tokens) : null;
  const title = cost ? null : gettext("No price is known.");
  const cells = [el("td", { title: whole }, count), el("td", { title }, cost || "–")];
  return el("tr", {}, el("th", { scope: "row" }, name), ...cells);
}

function budget({ name, left, used, free_at: freeAt }) {
  const state = used >= 1 ? ".full" : used >= 0.8 ? ".near" : "";
  const bar = el(`progress${state}`, { max: 1, value: used, "aria-label": filled(gettext("Used of the budget of {name}"), { name }) });
  const words = el("p", {}, el("span", {}, name), el("strong", {}, filled(gettext("{amount} left"), { amount: left })));
  const free = el("small", {}, ...around(gettext("Begins again on {date}"), "date", el("time", { datetime: freeAt }, MOMENT.format(new Date(freeAt)))));
  return el("div.budget", {}, words, bar, free);
}
