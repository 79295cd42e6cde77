// The keys of a menu: arrows wrap, Home and End, and first letters.
import assert from "node:assert/strict";
import { test } from "node:test";

const { moved } = await import(`${process.env.LATCHKEY_JS}/picker.js`);

const NAMES = ["Assistant", "Gardener", "Night watch", "مساعد", " gazette"];
const press = (key, at, more = {}) => moved({ key, ...more }, at, NAMES);

test("arrows go one entry on and wrap around", () => {
  assert.equal(press("ArrowDown", 0), 1);
  assert.equal(press("ArrowDown", 4), 0);
  assert.equal(press("ArrowUp", 0), 4);
  assert.equal(press("ArrowUp", 3), 2);
});

test("without a focused entry the first or the last is next", () => {
  assert.equal(press("ArrowDown", -1), 0);
  assert.equal(press("ArrowUp", -1), 4);
});

test("Home and End", () => {
  assert.equal(press("Home", 3), 0);
  assert.equal(press("End", 0), 4);
});

test("a letter goes to the next entry that begins with it, in any script", () => {
  assert.equal(press("g", 0), 1);
  assert.equal(press("G", 1), 4);
  assert.equal(press("g", 4), 1);
  assert.equal(press("م", 0), 3);
  assert.equal(press("a", 0), 0);
  assert.equal(press("x", 0), null);
});

test("other keys are not the menu's", () => {
  for (const key of ["Enter", " ", "F5", "Escape"]) assert.equal(press(key, 0), null);
  assert.equal(press("g", 0, { ctrlKey: true }), null);
  assert.equal(moved({ key: "ArrowDown" }, -1, []), null);
});
