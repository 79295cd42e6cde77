// The state of an answer as a function of its frames: each once, in order.
import assert from "node:assert/strict";
import { test } from "node:test";

const { isMessage, Run } = await import(`${process.env.LATCHKEY_JS}/conversation.js`);

const delta = (seq, content, id = "t") => ({
  type: "text", message_id: id, seq, run_id: "r", delta: true, delta_action: "append", delta_path: "content", props: { content },
});
const event = (seq, name, data = {}, message) => ({ type: "event", seq, run_id: "r", props: { event: name, data, message } });
const final = { type: "final", run_id: "r", seq: 9, text: "whole" };

test("deltas add up", () => {
  const run = new Run("r", "s");
  assert.equal(run.take(event(1, "stream_start")).event, "stream_start");
  assert.equal(run.take(delta(2, "Hel")).key, "t");
  run.take(delta(3, "lo"));
  assert.equal(run.parts.get("t").props.content, "Hello");
  assert.equal(run.text(), "Hello");
});

test("what comes twice counts once; what skips ahead is a gap and changes nothing", () => {
  const run = new Run("r", "s");
  run.take(delta(1, "a"));
  assert.equal(run.take(delta(1, "a")).outcome, "duplicate");
  assert.equal(run.take({ ...delta(4, "d"), after: 3 }).outcome, "gap");
  assert.equal(run.seq, 1);
  assert.equal(run.take({ ...delta(3, "bc"), after: 1 }).outcome, "applied");
  assert.equal(run.text(), "abc");
});

test("an ended run takes nothing more", () => {
  const run = new Run("r", "s");
  run.take(delta(1, "a"));
  assert.equal(run.finish(final), true);
  assert.equal(run.finish(final), false);
  assert.equal(run.take(delta(2, "b")).outcome, "duplicate");
  assert.equal(run.text(), "whole");
});

test("loading is the status line, until something is there or the run ends", () => {
  const run = new Run("r", "s");
  run.take({ type: "loading", seq: 1, message_id: "l", props: { message: "Searching…", percent: 250 } });
  assert.deepEqual(run.progress, { message: "Searching…", percent: 100 });
  run.take(delta(2, "x"));
  assert.equal(run.progress, null);
  run.finish(final);
  assert.deepEqual([...run.parts.keys()], ["t"]);
});

test("progress comes as an event and as a frame", () => {
  const run = new Run("r", "s");
  run.take(event(1, "progress", { tool: "x", percent: 40 }, "Reading…"));
  assert.deepEqual(run.progress, { message: "Reading…", percent: 40 });
  run.note({ message: "Almost", percent: "much" });
  assert.deepEqual(run.progress, { message: "Almost", percent: null });
  run.take(event(2, "stream_end"));
  assert.equal(run.progress, null);
});

test("a tool runs until it says that it has ended, or all has", () => {
  const run = new Run("r", "s");
  run.take({ type: "tool_call", seq: 1, message_id: "c", props: { id: "1", name: "x" } });
  assert.equal(run.toolState("1"), "running");
  run.take(event(2, "tool_end", { id: "1", status: "error" }));
  assert.equal(run.toolState("1"), "failed");
  run.take(event(3, "tool_end", { id: "3", status: "error", waits: true }));
  assert.equal(run.toolState("3"), "waits");
  assert.equal(run.toolState("2"), "running");
  run.take(event(4, "stream_end"));
  assert.equal(run.toolState("2"), "done");
});

test("a stored answer says which tools failed", () => {
  const run = new Run("r", "s");
  const call = (id, more) => ({ type: "tool_call", message_id: id, props: { id, name: "x" }, ...more });
  run.restore([call("1", { failed: true }), call("2"), call("3", { failed: true, waits: true })], { text: "done" });
  assert.equal(run.toolState("1"), "failed");
  assert.equal(run.toolState("3"), "waits");
  assert.equal(run.toolState("2"), "done");
});

test("html in a message is never believed", () => {
  const run = new Run("r", "s");
  run.take({ type: "text", seq: 1, message_id: "t", html: "<img src=x onerror=alert(1)>", props: { content: "a" } });
  assert.equal(run.parts.get("t").html, undefined);
});

test("a custom type may be called like a frame", () => {
  assert.equal(isMessage({ type: "final", seq: 3, props: {} }), true);
  assert.equal(isMessage({ type: "error", error: "x", status: 400 }), false);
  assert.equal(isMessage(final), false);
});
