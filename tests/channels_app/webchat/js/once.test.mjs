// A form is sent once, while its answer is on its way.
import assert from "node:assert/strict";
import { test } from "node:test";

test("a press that is refused does not hold the next one back for longer", async (context) => {
  context.after(() => delete globalThis.addEventListener);
  const heard = {};
  globalThis.addEventListener = (kind, hear) => {
    heard[kind] = hear;
  };
  await import(`${process.env.LATCHKEY_JS}/once.js`);
  const isSent = (timeStamp, method = "post") => {
    let sent = true;
    heard.submit({ timeStamp, defaultPrevented: false, target: { method }, preventDefault: () => (sent = false) });
    return sent;
  };
  assert.deepEqual([100, 2100, 4100, 5200].map((at) => isSent(at)), [true, false, false, true]);
  assert.equal(isSent(5300, "get"), true);
  assert.equal(isSent(5400), false);
  heard.pageshow({ persisted: true });
  assert.equal(isSent(5500), true);
});
