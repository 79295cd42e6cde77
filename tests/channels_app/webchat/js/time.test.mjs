// Under which heading of the list a chat stands, and when a message was said.
import assert from "node:assert/strict";
import { test } from "node:test";

process.env.TZ = "Europe/Berlin";
const { ageGroup, greeting, shortTime } = await import(`${process.env.LATCHKEY_JS}/time.js`);

const CASES = [
  ["2026-03-30T12:00+02:00", "2026-03-29T00:30+01:00", "Yesterday"],
  ["2026-03-30T12:00+02:00", "2026-03-28T23:30+01:00", "Last 7 days"],
  ["2026-10-26T12:00+01:00", "2026-10-25T00:30+02:00", "Yesterday"],
  ["2026-10-26T12:00+01:00", "2026-10-24T23:30+02:00", "Last 7 days"],
  ["2026-10-26T12:00+01:00", "2026-10-19T00:30+02:00", "Last 7 days"],
];

test("a day has its own hours where the clock has changed", () => {
  for (const [now, at, group] of CASES) assert.equal(ageGroup(at, new Date(now)), group, at);
});

test("the time of a message that is not of today has its day, and its year if that is another", () => {
  const said = (at, now) => shortTime(new Date(at), new Date(now));
  const evening = "2026-11-28T21:05+01:00";
  const time = said(evening, "2026-11-28T23:59+01:00");
  assert.doesNotMatch(time, /28/);
  assert.match(said(evening, "2026-11-29T00:01+01:00"), /Nov 28.*05/);
  assert.doesNotMatch(said(evening, "2026-11-29T00:01+01:00"), /2026/);
  assert.match(said(evening, "2027-01-02T08:00+01:00"), /Nov 28, 2026.*05/);
});

test("no greeting is a farewell, as good night is", () => {
  const hours = Array.from({ length: 24 }, (_, hour) => greeting(hour));
  assert.deepEqual(new Set(hours), new Set(["Good morning", "Good afternoon", "Good evening"]));
  assert.deepEqual([4, 5, 11, 12, 17, 18].map(greeting).map((words) => words.slice(5, 6)), ["e", "m", "m", "a", "a", "e"]);
});
