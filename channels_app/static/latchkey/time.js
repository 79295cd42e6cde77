// Dates for people.

import { gettext, LOCALE } from "./texts.js";

const TIME = new Intl.DateTimeFormat(LOCALE, { timeStyle: "short" });
const [MOMENT, IN_ANOTHER_YEAR] = [undefined, "numeric"].map(
  (year) => new Intl.DateTimeFormat(LOCALE, { year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }),
);
const FULL = new Intl.DateTimeFormat(LOCALE, { dateStyle: "full", timeStyle: "short" });

/** A <time> for an ISO date (or now), with the whole date as its title. */
export function timeNode(at) {
  const date = at ? new Date(at) : new Date();
  if (Number.isNaN(date.getTime())) return null;
  const node = document.createElement("time");
  node.dateTime = date.toISOString();
  node.title = FULL.format(date);
  node.textContent = shortTime(date);
  return node;
}

/** The time of a date, with the day unless that is today's. */
export function shortTime(date, now = new Date()) {
  if (date.toDateString() === now.toDateString()) return TIME.format(date);
  return (date.getFullYear() === now.getFullYear() ? MOMENT : IN_ANOTHER_YEAR).format(date);
}

/** Under which heading of the list of chats a date belongs. */
export function ageGroup(at, now = new Date()) {
  const moment = new Date(at);
  // Not every day has 24 hours.
  const midnight = (ago) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - ago);
  if (moment >= midnight(0)) return gettext("Today");
  if (moment >= midnight(1)) return gettext("Yesterday");
  if (moment >= midnight(7)) return gettext("Last 7 days");
  return gettext("Older");
}

/** The greeting of an hour. */
export function greeting(hour) {
  if (hour < 5 || hour > 17) return gettext("Good evening");
  return hour < 12 ? gettext("Good morning") : gettext("Good afternoon");
}
